"""How long the training thread was kept from Python's lock, where other threads' Python is seen to hold it.

Who waits for the lock sleeps, wakes up to ask for it, and is then ready for a CPU: the scheduler counts that as a wait
for a CPU. What other threads ran meanwhile, they ran with the lock.
"""

from __future__ import annotations

from tpuprof.model.host.op_cost import BLOCKED_FROM_SHARE, Sample
from tpuprof.model.host.sample_events import BLOCKING, TRACING_FROM_SHARE
from tpuprof.model.host.stacks import Stack

# Share of the other Python threads' CPU time for which the training thread must sleep, in no call that blocks, for them
# to work with the lock (share). Threads that work without it (NumPy on large arrays, a compressor) let it run on: it
# sleeps for next to none of their time. Of two threads of plain Python it was 0.5 to 0.6. A judgement.
SHARED_FROM_SHARE = 0.3


def mark_kept_out(samples: list[Sample], stacks: list[Stack]) -> None:
    """Say of each sample for how long of its interval other threads had the lock, as far as that is known."""
    seen = [each for each in samples if not _may_wait_for_others(each, stacks)]
    ran = sum(each.others for each in seen)
    slept = sum(
        min(each.blocked, each.others)
        for each in seen
        if each.was_blocked and each.others >= TRACING_FROM_SHARE * each.blocked
    )
    if not ran or slept < SHARED_FROM_SHARE * ran:
        return
    for each in samples:
        if each.family not in BLOCKING:
            off = max(each.gap - each.cpu, 0)
            held = min(each.others, off)
            held += _waits_for_the_same_cpu(each, off - held)
            each.kept_out = held if held >= BLOCKED_FROM_SHARE * each.gap else 0


def _may_wait_for_others(each: Sample, stacks: list[Stack]) -> bool:
    """Whether the thread may have slept for something else: a call that blocks, the device, or autograd's thread."""
    if each.family in BLOCKING or each.cut or each.read or each.in_call:
        return True
    return each.stack >= 0 and stacks[each.stack].waits_for_autograd


def _waits_for_the_same_cpu(each: Sample, left: int) -> int:
    """Of other waits for a CPU, what is due to those threads (ps): their part of what else the process ran.

    Where it ran nothing else, they alone were in the way: who gets the lock is often woken up on their CPU.
    """
    waits = min(each.waited, left)
    beside = max(each.process - each.cpu, 0)
    return round(waits * min(each.others / beside, 1.0)) if beside else 0
