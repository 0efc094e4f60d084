"""What runs are called on screen: a short name and when they were written."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tpuprof.decode.find import host_name
from tpuprof.run_folder import PLUGINS

if TYPE_CHECKING:
    from tpuprof_dashboard.runs import Source


def run_labels(runs: Iterable[Source]) -> dict[str, str]:
    """Labels such as `demo, 22 Nov 03:01`, by run.

    Runs of the same name and minute get more of their path, until each label is the only one of its kind.
    """
    runs = list(runs)
    paths = {each.name: _parts(each.path) for each in runs if not each.uploaded}
    used = dict.fromkeys(paths, 1)

    def label(run: Source) -> str:
        if run.uploaded:
            return run.name
        return f"{'/'.join(paths[run.name][-used[run.name] :])}, {_when(run.changed)}"

    while _longer(runs, label, paths, used):
        pass
    return {each.name: label(each) for each in runs}


def _longer(
    runs: list[Source], label: Callable[[Source], str], paths: dict[str, list[str]], used: dict[str, int]
) -> bool:
    """Take one more folder into the labels that are not alone; False where there is nothing to take."""
    count = Counter(map(label, runs))
    alike = [each.name for each in runs if count[label(each)] > 1 and not each.uploaded]
    grown = [name for name in alike if used[name] < len(paths[name])]
    for name in grown:
        used[name] += 1
    return bool(grown)


def _parts(path: Path) -> list[str]:
    """The folders that name a run, the closest last: of a capture those above `plugins/profile`, then the session."""
    parts = (
        [*path.parts[1:-1], host_name(path)] if path.is_absolute() else [*path.parts[:-1], host_name(path)]
    )
    for at in range(len(parts) - 1, 0, -1):
        if parts[at] == PLUGINS:
            return [*parts[at:], *parts[:at]]
    return parts or [str(path)]


def _when(seconds: float) -> str:
    """Local time, as people write it."""
    moment = time.localtime(seconds)
    return f"{moment.tm_mday} {time.strftime('%b %H:%M', moment)}"
