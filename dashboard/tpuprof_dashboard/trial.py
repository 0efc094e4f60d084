"""Reads an upload in a process of its own first, whose memory and processor time are limited.

No size of a file says what reading it takes: 60 MB may hold 30 million empty events, or as many empty lines.

python -m tpuprof_dashboard.trial PATH BYTES
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tpuprof.errors import Code, TpuprofError

# Memory that reading one upload may take (bytes): a trace of three million events takes some 1 GB.
MAX_MEMORY = 1536 * 2**20
# Processor time that it may take (s): a trace of three million events takes some 3 s.
MAX_SECONDS = 120
# Statuses of the process: it reads, or says itself what is wrong with the file.
_READABLE, _REFUSED, _GREEDY = 0, 2, 3


def refuse_greedy(name: str, path: Path, memory: int = MAX_MEMORY) -> None:
    """Raise `TpuprofError` (`input-too-large`) where reading an upload takes more than it may."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(path), str(memory)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    if done.returncode in (_READABLE, _REFUSED):
        return
    raise TpuprofError(
        Code.TOO_LARGE,
        f"{name}: cannot be read within {memory // 2**20} MiB of memory and {MAX_SECONDS} s of processor time.",
        "Start the dashboard with the path of this trace.",
    )


def main(path: Path, memory: int) -> int:
    """Read a file as the dashboard does, for its Report and its timeline, within the limits."""
    import resource

    # Imported before the limit is set, which is for what the file takes.
    from tpuprof.report.saved import is_saved_report
    from tpuprof_dashboard.reading import details_of, found_of, read_saved, report_of, saved_details
    from tpuprof_dashboard.runs import Source

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_SECONDS, MAX_SECONDS))
    source = Source(path.name, path, path, uploaded=True)
    try:
        if is_saved_report(path):
            found = [saved_details(read_saved(source))]
        else:
            _, run = report_of(found_of(source), _say_nothing)
            found = [details_of(run, _say_nothing)] if run is not None else []
        for lane in (lane for details in found for host in details.hosts.values() for lane in host.lanes):
            _ = lane.lane
    except MemoryError:
        return _GREEDY
    except TpuprofError as error:
        return _GREEDY if error.code is Code.OUT_OF_MEMORY else _REFUSED
    except Exception:
        # A defect, or memory that a thread, say, could not get: the dashboard itself does not try what failed here.
        return _GREEDY
    return _READABLE


def _say_nothing(_share: float, _doing: str) -> None:
    return


if __name__ == "__main__":
    # Without taking Python apart: a thread may still hold what is left of a read.
    os._exit(main(Path(sys.argv[1]), int(sys.argv[2])))
