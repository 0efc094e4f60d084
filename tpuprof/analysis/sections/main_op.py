"""The op, or the loop, that a verdict names: that most of the device's time is in, or that waits longest for Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tpuprof.model.device.compute import EITHER
from tpuprof.model.device.op_kind import OpKind
from tpuprof.report.op_rows import OpRows
from tpuprof.report.schema import LoopRow, OpRow
from tpuprof.report.user_frames import is_users_line
from tpuprof.units import counted, format_share

# Share of the device's busy time in steps from which one op, or one loop, is most of it: half.
MOST_FROM_SHARE = 0.5
# Share of it from which an op is named that does little for its time (share): what rules on ops fail from.
COSTLY_FROM_SHARE = 0.1
# Kinds of such ops: a whole sort for the few largest values, say.
_COSTLY = frozenset(
    {"sort", "topk", "reduce-window", "select-and-scatter", "cholesky", "triangular-solve", "fft"}
)
# Characters shown of a name: in a Chrome trace it may be a whole HLO line (characters).
LONGEST_NAME = 80
# What a report calls ops that wait for Python code on the host.
_CALLBACK = OpKind.HOST_CALLBACK.name.lower()
# Of transfers with the host that may be either.
_SLICE = " Or it waits for another slice: nothing in the trace tells Python callbacks from collectives across slices."


def main_op(busy_ms: float, ops: Sequence[OpRow], loops: Sequence[LoopRow]) -> str:
    """A sentence on what takes most of `busy_ms` (per step): an op, ops of one kind at one line, all copies, or a loop.

    Of loops it is the inmost. Empty where nothing does.
    """
    if busy_ms <= 0:
        return ""
    times = OpRows.of(ops).column("self_ms_per_step")
    row = max(range(len(times)), key=lambda each: times[each] or 0.0, default=None)
    if row is not None and _is_most(times[row], busy_ms):
        return _said(ops[row].name, ops[row].source, times[row], busy_ms)
    alike = _by_kind_and_line(ops, times)
    said = _most_alike(alike, busy_ms) or _copies(ops, times, busy_ms)
    if said:
        return said
    most = [each for each in loops if _is_most(each.total_ms_per_step, busy_ms)]
    if not most:
        return _costly_op(alike, busy_ms)
    inmost = min(most, key=lambda each: each.total_ms_per_step or 0.0)
    return _said(f"the loop {inmost.name}", inmost.source, inmost.total_ms_per_step or 0.0, busy_ms)


def _most_alike(alike: Mapping[tuple[str, str], _Alike], busy_ms: float) -> str:
    """The same on ops of one kind at one line, as the sorts of a permutation; empty where none take most."""
    for (kind, source), each in alike.items():
        if _is_most(each.ms, busy_ms):
            return _said(each.called(kind), source, each.ms, busy_ms)
    return ""


def _copies(ops: Sequence[OpRow], times: Sequence[float | None], busy_ms: float) -> str:
    """The same on all copies and transposes: XLA makes them, so that most have no line."""
    copies = zip(OpRows.of(ops).column("layout_copy"), times, strict=True)
    found = [ms for is_copy, ms in copies if is_copy and ms]
    if not _is_most(sum(found), busy_ms):
        return ""
    return _said(f"{counted(len(found), 'op')} that copy or transpose", "", sum(found), busy_ms)


def _costly_op(alike: Mapping[tuple[str, str], _Alike], busy_ms: float) -> str:
    """What is longest of kinds that devices for matrix multiplications are slow at, at a line of the program's own."""
    found = [
        (each.ms, each.called(kind), source, each.ops)
        for (kind, source), each in alike.items()
        if kind in _COSTLY and is_users_line(source)
    ]
    ms, name, source, count = max(found, default=(0.0, "", "", 0))
    if ms < COSTLY_FROM_SHARE * busy_ms:
        return ""
    share = format_share(min(ms / busy_ms, 1.0))
    return (
        f" {name[:LONGEST_NAME]} at {source} {'take' if count > 1 else 'takes'} {share} of the device's time."
    )


class _Alike(NamedTuple):
    """Ops of one kind at one line: how long they take (ms per step), how many they are, and the name of one."""

    ms: float
    ops: int
    name: str

    def called(self, kind: str) -> str:
        return counted(self.ops, f"{kind[:LONGEST_NAME]} op") if self.ops > 1 else self.name


def _by_kind_and_line(ops: Sequence[OpRow], times: Sequence[float | None]) -> dict[tuple[str, str], _Alike]:
    """Those with a line. The name of an op begins with its kind: `sort.2`."""
    rows = OpRows.of(ops)
    found: dict[tuple[str, str], _Alike] = {}
    for name, source, ms in zip(rows.column("name"), rows.column("source"), times, strict=True):
        if source and ms:
            key = name.partition(".")[0], source
            so_far = found.get(key, _Alike(0.0, 0, name))
            found[key] = _Alike(so_far.ms + ms, so_far.ops + 1, name)
    return found


def _is_most(ms: float | None, busy_ms: float) -> bool:
    return ms is not None and ms >= MOST_FROM_SHARE * busy_ms


def _said(name: str, source: str, ms: float, busy_ms: float) -> str:
    at = f" at {source}" if source else ""
    share = format_share(min(ms / busy_ms, 1.0))
    return f" Most of the device's time is in {name[:LONGEST_NAME]}{at} ({share})."


def callback_op(ops: Sequence[OpRow]) -> str:
    """The op that waits longest for Python, and its line; empty where no op does."""
    rows = OpRows.of(ops)
    waits = rows.where(kind == _CALLBACK for kind in rows.column("kind"))
    if not waits:
        return ""
    longest = max(waits, key=lambda row: row.self_ms_per_step or 0.0)
    text = f" It is {longest.name}" + (f" at {longest.source}." if longest.source else ".")
    return text + _SLICE if longest.note == EITHER else text
