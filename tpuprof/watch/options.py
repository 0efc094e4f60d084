"""What a watched program was asked to do: passed from `tpuprof watch` to the processes it starts as JSON."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# Names of the job, by preference: ours, then what schedulers set. A restarted job keeps its name.
_JOB_VARIABLES = ("TPUPROF_JOB", "JOB_NAME", "SLURM_JOB_NAME")
# Ranks by the variables of launchers, for processes whose runtime is not up yet.
_RANK_VARIABLES = ("RANK", "JAX_PROCESS_ID", "TPU_WORKER_ID", "CLOUD_TPU_TASK_ID", "SLURM_PROCID")


@dataclass(frozen=True)
class WatchOptions:
    """`captures_per_hour` and `capture_bytes` are the budget of captures; `metrics_port` 0 takes a free port."""

    folder: str
    job: str = ""
    capture: bool = True
    capture_steps: int = 8
    captures_per_hour: int = 4
    capture_bytes: int = 2**30
    hang_seconds: float = 30.0
    warm_steps: int = 20
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    tensorboard: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The options as one JSON object."""
        return asdict(self)


def job_name(options: WatchOptions) -> str:
    """The job's name; without one, command and working directory stand for it, so that a restart is the same job."""
    named = options.job or next((os.environ[each] for each in _JOB_VARIABLES if os.environ.get(each)), "")
    if named:
        return named
    text = "\0".join([os.getcwd(), *sys.argv])
    return hashlib.sha1(text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:12]


def rank_by_environment() -> int | None:
    """Rank of this process by its launcher, None where no launcher says."""
    for name in _RANK_VARIABLES:
        value = os.environ.get(name, "")
        if value.isdecimal():
            return int(value)
    return None


def commit_of(folder: str) -> str | None:
    """The commit that is checked out where the program runs, None outside a repository. Runs no program."""
    for parent in [Path(folder), *Path(folder).parents]:
        head = parent / ".git" / "HEAD"
        try:
            text = head.read_text("utf-8").strip()
            if not text.startswith("ref: "):
                return text[:40]
            return (parent / ".git" / text[5:]).read_text("utf-8").strip()[:40]
        except NotADirectoryError:
            return None  # a work tree of its own has a file there
        except OSError:
            if head.exists():
                return None
    return None
