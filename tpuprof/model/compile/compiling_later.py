"""Which steps to capture of a run that compiles only long after its captured steps."""

from __future__ import annotations

from tpuprof.model.host_run import HostRun
from tpuprof.run_folder import MANY_STEPS

# Share of the compiles after the capture that may come before the steps to capture (share): a single early one, of a
# log, is not what takes the time. A judgement.
EARLIER_SHARE = 0.25


def warmup_to_compiles(host: HostRun) -> int | None:
    """Steps to let pass for a capture of what compiles later (`--warmup`); None where `MANY_STEPS` more hold it.

    None as well where it is unknown which steps compile, or how many came before the captured ones.
    """
    steps = [row for row, each in enumerate(each for each in host.records if each.is_step) if each.captured]
    if host.after is None or host.after.estimated or not steps:
        return None
    compiling = sorted({step for line in host.after.lines.values() for step in line.steps})
    if not compiling:
        return None
    first = compiling[int(EARLIER_SHARE * len(compiling))]
    # Steps after the capture are numbered from the first one behind the captured ones.
    return steps[-1] + 1 + first if first >= MANY_STEPS else None
