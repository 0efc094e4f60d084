"""Steps from reads of values in a program that calls op by op: each read ends what lies between it and the one before.

Inference has no optimizer, and an eager framework cuts no graph. What tells its steps is the result that each of them
takes to the host: the ops between two such reads are the same ones again and again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpuprof.model.host.event_times import COMPILED_REGION
from tpuprof.model.host.vocabulary import Activity, Vocabulary
from tpuprof.model.intervals import Bool, Int64
from tpuprof.model.steps.cuts import UNKNOWN, Cuts
from tpuprof.model.steps.from_cuts import read_steps
from tpuprof.model.steps.repetition import EXPLAINS_FROM_SHARE, MIN_REPEATS, find_repetition
from tpuprof.model.steps.table import LOW, Steps, StepSource
from tpuprof.model.timeline import Track

# Where torch.compile made the model, a read ends no step if it was not called since the read before and fewer ops than
# this were (ops): a loop that reads each number of a batch has a slice before each. As many as make ops run one by one.
FEW_OPS = 8
_OTHERS = "Reads before which no compiled function was called, and few ops, belong to the step after them"
_SEVERAL = "The ops between two reads repeat themselves, so that several steps may lie between them"


def eager_read_steps(driver: Track, vocabulary: Vocabulary) -> Steps | None:
    """Steps that end with a read; None where the program is no eager one, or reads less than three times.

    Two reads are of the same kind where the same ops came before them. A read behind which no op comes before the next
    one belongs to it. Where torch.compile made functions, reads that hold none of their calls and few ops end no step.
    """
    if not vocabulary.eager:
        return None
    rows, ops = (
        _reads_of(driver, vocabulary),
        _outermost(driver, vocabulary.driver_ops.rows(driver.plane.events.names)),
    )
    begins, ends = driver.start[rows], driver.end[rows]
    first = np.searchsorted(driver.start[ops], np.append(np.iinfo(np.int64).min, ends[:-1]))
    until = np.searchsorted(driver.start[ops], begins)
    ending = _ends_step(driver, vocabulary, begins, ends, until - first)
    holds = (until > first) & ending
    if int(holds.sum()) < MIN_REPEATS:
        return None
    labels = driver.name_row[ops]
    words = [labels[low:high] for low, high in zip(first[holds], until[holds], strict=True)]
    numbers: dict[bytes, int] = {}
    graph = np.array([numbers.setdefault(word.tobytes(), len(numbers)) for word in words], np.int64)
    unknown = np.full(len(graph), UNKNOWN, np.int64)
    reads = Cuts(begins[holds], ends[holds], graph, unknown, [""] * len(graph))
    steps = read_steps(reads, StepSource.EAGER_READS)
    if steps is None:
        return None
    if not ending.all():
        steps = replace(steps, note=f"{steps.note}. {_OTHERS}")
    if not _repeats(max(words, key=len)):
        return steps
    return replace(steps, confidence=LOW, note=f"{steps.note}. {_SEVERAL}")


def _ends_step(driver: Track, vocabulary: Vocabulary, begins: Int64, ends: Int64, ops: Int64) -> Bool:
    """Which reads end steps, by the compiled functions that are called before them; all where hardly any is called."""
    rows = vocabulary.named(COMPILED_REGION).rows(driver.plane.events.names)
    calls = driver.start[_outermost(driver, rows)]
    before = np.searchsorted(calls, np.append(np.iinfo(np.int64).min, ends[:-1]))
    called = np.searchsorted(calls, begins) > before
    enough = int(called.sum()) >= MIN_REPEATS
    return called | (ops >= FEW_OPS) if enough else np.ones(len(begins), np.bool_)


def _repeats(word: Int64) -> bool:
    """Whether ops of one stretch between two reads are repetitions of a shorter one."""
    found = find_repetition(word)
    return found is not None and found.width > 1 and float(found.held.mean()) >= EXPLAINS_FROM_SHARE


def _reads_of(driver: Track, vocabulary: Vocabulary) -> Int64:
    """Reads that lie in no other, in time order (rows)."""
    names = driver.plane.events.names
    wanted = [
        row for row, name in enumerate(names) if vocabulary.activity(name) is Activity.DEVICE_TO_HOST_SYNC
    ]
    return _outermost(driver, np.array(wanted, np.int64))


def _outermost(driver: Track, names: Int64) -> Int64:
    """Events of these names (rows of the plane's) that lie in no other of them, in time order (rows)."""
    rows = driver.outermost(np.flatnonzero(np.isin(driver.name_row, names)))
    return rows[np.argsort(driver.start[rows], kind="stable")]
