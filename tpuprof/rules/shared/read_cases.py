"""What values are read for, as far as the calls show: each kind of read has advice of its own."""

from __future__ import annotations

from tpuprof.model.host.reads import IMPLICIT, IMPLICIT_BACKWARD, IMPLICIT_READS
from tpuprof.model.python_tools import ANOMALY
from tpuprof.own_events import WAITS_ALONE
from tpuprof.report.schema import HostReadRow
from tpuprof.rules.shared.named_reads import blocked_by_reads, in_library
from tpuprof.signals import Signals

# Share of what all reads block from which one's kind has its advice (share): a fifth, as in host-blocked.
ADVISED_FROM_SHARE = 0.2
# Reads of a step from which it reads several values (reads per step): half of the steps may read one more, for a log.
SEVERAL_FROM = 1.5
# Reads of one line per step from which its value may end a Python loop (reads per step): a step with two logs has two.
LOOPS_FROM = 3
# Advice for that, and the calls that hand over one number, which may be compared.
LOOP = "loop"
_NUMBERS = frozenset({"__bool__", "__float__", "__int__", "__index__", "item"})
# Calls whose value decides what the program does next, and those that hand an array over, for NumPy or for a log.
_BRANCHES = frozenset({"__bool__"})
# What reads in the backward pass are for that no call of the program asks for.
IN_BACKWARD = frozenset({"anomaly", "backward"})
# Where torch's optimizers are installed, and what else is in that folder and reads: schedulers look at the loss.
_OPTIMIZERS, _NO_OPTIMIZERS = "torch/optim/", ("torch/optim/lr_scheduler", "torch/optim/swa_utils")
# Advice for an optimizer that reads what its closure computed, as L-BFGS does; and that for any library.
OPTIMIZER, LIBRARY = "optimizer", "library"
ARRAYS = frozenset({"cpu", "to", "numpy", "tolist", "device_get", "__array__"})


def read_cases(signals: Signals) -> frozenset[str]:
    """What the values are read for, as far as the calls show: each has advice of its own.

    A value that a library reads is no read of the program's: its options are what can be changed. An array that a
    library is given and reads is the program's.
    """
    enough = ADVISED_FROM_SHARE * blocked_by_reads(signals)
    every = [row for row in signals.host_reads if row.blocked_ms_per_step >= enough]
    found = [row for row in every if not _by_optimizer(signals, row)]
    rows = [row for row in found if row.call not in IMPLICIT_READS]
    own = [row for row in rows if row.call in ARRAYS or not in_library(signals, row.call, row.source)]
    calls = {row.call for row in own}
    cases = {*(["branch"] if calls & _BRANCHES else []), *(["arrays"] if calls & ARRAYS else [])}
    cases |= {LIBRARY} if len(own) < len(rows) else set()
    cases |= {OPTIMIZER} if len(found) < len(every) else set()
    cases |= {"wait"} if calls & WAITS_ALONE else set()
    cases |= {"several"} if _reads_several(signals) else set()
    cases |= {LOOP} if any(_may_end_a_loop(signals, row) for row in own) else set()
    cases |= {"sized"} if any(row.call == IMPLICIT for row in found) else set()
    if any(row.call == IMPLICIT_BACKWARD for row in found):
        cases |= {"anomaly" if ANOMALY in signals.python_tools_if_noted else "backward"}
    return frozenset(cases | ({"value"} if calls - _BRANCHES - WAITS_ALONE or not cases else set()))


def _may_end_a_loop(signals: Signals, row: HostReadRow) -> bool:
    """Whether a line of the program reads a number again and again in each step, as `if float(error) < limit` does."""
    return row.call in _NUMBERS and row.occurrences >= LOOPS_FROM * len(signals.steps)


def _by_optimizer(signals: Signals, row: HostReadRow) -> bool:
    """Whether one of torch's optimizers reads the value."""
    place = in_library(signals, row.call, row.source)
    return place.startswith(_OPTIMIZERS) and not place.startswith(_NO_OPTIMIZERS)


def _reads_several(signals: Signals) -> bool:
    """Whether a step reads several values that may be read at once: a library's reads, and conditions, are none."""
    rows = [
        row
        for row in signals.host_reads
        if row.call not in WAITS_ALONE | _BRANCHES | IMPLICIT_READS
        and not in_library(signals, row.call, row.source)
    ]
    return sum(row.occurrences for row in rows) >= SEVERAL_FROM * len(signals.steps)
