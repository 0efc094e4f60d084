"""A device's work on one clock: which ops ran when, of which kind, and when programs were executing.

Times are ps from the run's origin. TPU devices are read in `device_tpu.py`; `device_cpu.py` reads what
PJRT_DEVICE=CPU leaves on host threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.device.op_lines import OpLines, op_lines
from tpuprof.model.device.op_sums import OpSums, op_sums
from tpuprof.model.intervals import EMPTY, Int64, Spans, covered, merge, subtract, union, union_by_label
from tpuprof.records import record

if TYPE_CHECKING:
    from tpuprof.model.device.fusions import Fused

_T = TypeVar("_T")
# Kinds that share out a device's time, in the order of painting: while it computes, nothing else counts but a
# Python function that the program waits for.
PAINTED = (
    OpKind.HOST_CALLBACK,
    OpKind.COMPUTE,
    OpKind.INFEED_OUTFEED,
    OpKind.OFFLOAD,
    OpKind.COLLECTIVE,
)


@record(frozen=True)
class OpNames:
    """What is known of each distinct op of a device: one row a (program, op).

    `flops`, `bytes` and `hbm_bytes` are per execution, 0 where the profiler states none; `hbm_bytes` is what of `bytes`
    goes to or from HBM, empty where that is all. `source` is `file:line`,
    `scope` the framework's path for the op (`tf_op` or HLO op_name), both empty where unknown.
    """

    name: list[str]
    long_name: list[str]
    category: list[str]
    kind: Int64
    program: list[str]
    source: list[str]
    scope: list[str]
    flops: Int64
    bytes: Int64
    lines: OpLines
    # Sum of the durations that the device states by its own clock (ps), -1 where it states none.
    clock_ps: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    hbm_bytes: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    # The number of the program of each op; empty where the trace has the programs themselves, or states none.
    program_id: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    # Row to what the program says of a fusion.
    fused: dict[int, Fused] = field(default_factory=dict)
    # Rows of collectives across slices, through the hosts and the data centre network.
    across: frozenset[int] = frozenset()
    # Rows of transfers with the host that may be for Python callbacks or for other slices.
    unclear: frozenset[int] = frozenset()
    # Row to on how many devices the op computes the same, 0 where it does not; without ops whose program is
    # unknown or of one device.
    repeated: dict[int, int] = field(default_factory=dict)
    # Row to where the doubles begin that the op computes with, None where it computes with none; without ops whose
    # program is unknown.
    doubles: dict[int, str | None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.name)

    def by_line(self, read: Callable[[str, str, str], _T]) -> list[_T]:
        """What `read` makes of the long name, name and category of each line; `lines` says which ops have it."""
        return [read(self.long_name[row], self.name[row], self.category[row]) for row in self.lines.first]

    def where(self, holds: Callable[[str, str, str], bool]) -> npt.NDArray[np.bool_]:
        """Of which ops that holds for the line."""
        return np.array(self.by_line(holds), np.bool_)[self.lines.of]


@record(frozen=True)
class OpEvents:
    """Executions of ops: `op` is a row of `OpNames`, `start` to `end` the op's work, `self_ps` without children."""

    op: Int64
    start: Int64
    end: Int64
    self_ps: Int64


@record(frozen=True)
class WorkSpans:
    """When any thread worked for ops: `op` is a row of `OpNames`. An op may wait for a thread while it runs."""

    op: Int64
    start: Int64
    end: Int64


@record(frozen=True)
class ProgramRuns:
    """Executions of programs: `program` is a row of `names` (`graph(fingerprint)`)."""

    names: list[str]
    program: Int64
    start: Int64
    end: Int64


@record
class DeviceActivity:
    """One device, or on CPU all virtual devices together.

    `async_ops` and `async_events` are asynchronous copies and collectives, from start to completion, as far as
    the capture has them. `step_start` and `step_end` are the device's own `Steps` line, empty where it has none;
    `step_number` is what these are called, -1 where that is not a number.
    """

    name: str
    type: str
    count: int
    ops: OpNames
    op_events: OpEvents
    async_ops: OpNames
    async_events: OpEvents
    programs: ProgramRuns
    executing: Spans
    step_start: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    step_end: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    step_number: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    peak_flops_per_s: float | None = None
    peak_hbm_bytes_per_s: float | None = None
    # Whether two TensorCores run the program as one device; None where the trace does not say.
    megacore: bool | None = None
    # When the device waited for other chips before a program began.
    barriers: Spans = EMPTY
    # When threads of a CPU device worked beside a program's callback; None where the trace does not say.
    beside_callbacks: Spans | None = None
    # When threads of a CPU device worked for its ops, without loops and calls; None where the trace does not say.
    at_work: WorkSpans | None = None
    # When its SparseCores ran ops; None where the capture has no plane of them.
    sparse_busy: Spans | None = None

    # Not cached properties: in Python 3.11 one lock would make the devices of a host take turns.
    _by_kind: dict[OpKind, Spans] | None = field(default=None, repr=False)
    _busy: Spans | None = field(default=None, repr=False)
    _sums: tuple[Spans, OpSums] | None = field(default=None, repr=False)

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU: its kernels run side by side on streams, and rules of TPUs say nothing of it."""
        return self.type.startswith("GPU")

    @property
    def by_kind(self) -> dict[OpKind, Spans]:
        """When ops of each kind were running, each kind's overlaps merged; computed once."""
        if self._by_kind is None:
            op, start, end = self._at_work()
            found = union_by_label(start, end, op, self.ops.kind, len(OpKind))
            self._by_kind = dict(zip(OpKind, found, strict=True))
        return self._by_kind

    def _at_work(self) -> tuple[Int64, Int64, Int64]:
        """Ops, and from when to when they ran: without waits for a thread, where those are known."""
        events, work = self.op_events, self.at_work
        if work is None:
            return events.op, events.start, events.end
        outer = self.ops.kind[events.op] == OpKind.CONTAINER
        return (
            np.concatenate((events.op[outer], work.op)),
            np.concatenate((events.start[outer], work.start)),
            np.concatenate((events.end[outer], work.end)),
        )

    @property
    def busy(self) -> Spans:
        """When the device worked or waited inside a program: ops and program executions together."""
        if self._busy is None:
            self._busy = merge(self.executing, union(self.op_events.start, self.op_events.end))
        return self._busy

    def wall_factor(self, steps: Spans) -> npt.NDArray[np.float64]:
        """By kind of op (`OpKind`): the device's own time in steps over the self time of such ops (ratio, up to 1).

        PJRT_DEVICE=CPU has all its devices, and all their threads, in one plane, and a GPU has streams: ops run at
        the same time, and their times add up to more than passed. Times the factor they add up to the parts of the
        breakdown.
        """
        factors = np.ones(len(OpKind), np.float64)
        if self.type != "CPU" and not self.is_gpu:
            return factors
        own = np.bincount(self.ops.kind, self.sums(steps).self_ps_in_steps, len(OpKind))
        taken: Spans | None = None
        for kind in PAINTED:
            spans = self.by_kind[kind] if taken is None else subtract(self.by_kind[kind], taken)
            taken = spans if taken is None else merge(taken, spans)
            passed = float(covered(spans, steps.start, steps.end).sum())
            if own[kind] > passed:
                factors[kind] = passed / own[kind]
        return factors

    def sums(self, steps: Spans) -> OpSums:
        """Executions and times by op; computed once for the same steps."""
        found = self._sums
        if found is None or found[0].start is not steps.start or found[0].end is not steps.end:
            events = self.op_events
            found = steps, op_sums(events.op, events.start, events.end, events.self_ps, len(self.ops), steps)
            self._sums = found
        return found[1]


def no_ops() -> tuple[OpNames, OpEvents]:
    """Tables without rows."""
    none = np.empty(0, np.int64)
    return OpNames([], [], [], none, [], [], [], none, none, op_lines([], [], [])), OpEvents(
        none, none, none, none
    )


def are_several(devices: Sequence[DeviceActivity]) -> bool:
    """Whether these stand for more than one device: on CPU one stands for all virtual ones."""
    return sum(each.count for each in devices) > 1
