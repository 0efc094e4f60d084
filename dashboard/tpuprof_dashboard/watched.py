"""Which of the open folders hold jobs that `tpuprof watch` watches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuprof.run_folder import LEDGERS
from tpuprof_dashboard.components.layout import empty

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Watched folders shown at most (count).
MAX_FOLDERS = 4
_ADVICE = "Watch a job with `tpuprof watch -o RUNS -- python train.py`, and open the dashboard on RUNS."


def is_watched(folder: Path) -> bool:
    """Whether a folder holds ledgers."""
    return (folder / LEDGERS).is_dir()


def watched_folders(given: Sequence[Path]) -> list[Path]:
    """Folders with ledgers: the given ones, and those right in them."""
    found = []
    for path in given:
        inside = sorted(each for each in path.iterdir() if each.is_dir()) if path.is_dir() else []
        found += [each for each in (path, *inside) if is_watched(each)]
    return found[:MAX_FOLDERS]


def none_watched() -> Any:
    """What stands where no open folder holds a ledger."""
    return empty("No watched job", "None of the open folders holds a ledger.", _ADVICE)
