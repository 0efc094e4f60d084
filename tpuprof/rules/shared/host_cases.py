"""What the training thread does beside training, as the cases of advice that fit it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from tpuprof.model.host.samples import READ_BY
from tpuprof.model.host.stacks import looks_at_program
from tpuprof.model.host.unended_read import WAIT, unended_read
from tpuprof.parts import GARBAGE
from tpuprof.report.labels import source_of
from tpuprof.report.sections import HostStackRow

# Share of this time that a kind of it must have for its advice to be given. A judgement.
ADVISED_FROM_SHARE = 0.2
# Lines of source between a read and the call after it, up to which that call may work on what was read (lines). A
# judgement: the advice says "where this work uses the value".
NEAR_LINES = 10
# The advice's case of functions that look at a program, of garbage collections, and of work on a value that the step
# has read before.
_PROGRAM, _GARBAGE, _DEPENDENT = "program", "gc", "dependent"
# Kinds of time that another thread or Python's collector causes, and waits and looks at programs that have advice of
# their own. All others are the training thread's own work.
_OTHERS_WORK = frozenset({"lock", "gil", "read", _PROGRAM, _GARBAGE})
_PYTHON = "host:python"
# How a frame of a stack says that it is Flax's, torch's, and of torch's modules.
_FLAX, _TORCH, _MODULES = "/flax/nnx/", "/torch/", "/torch/nn/modules/"
# A call of Python's collector. Where no event shows collections, as in TorchTPU, the line's own words do.
_COLLECTS = re.compile(r"\bgc\.collect\(")
# Calls whose result goes to a file or a screen, and not back to the device.
_PUTS_AWAY = re.compile(r"\b(?:dumps?|save\w*|write\w*|fsync|print|log\w*|debug|info|warning)\(")


def host_cases(
    sampled: dict[str, float], stacks: list[HostStackRow], *, jax: bool = False, reads: Collection[str] = ()
) -> frozenset[str]:
    """The kinds of time that are a good part of it, and Flax where that walks modules: each has advice of its own.

    `reads` are the lines (`file:line`) that read values of the device. In JAX a wait in `np.asarray` is one for the
    device, and no work of the thread.
    """
    enough = ADVISED_FROM_SHARE * sum(sampled.values())
    rest = {name: ms for name, ms in sampled.items() if name != GARBAGE}
    of_case = {_PROGRAM: 0.0, _GARBAGE: sampled.get(GARBAGE, 0.0)}
    for row in stacks:
        case = _own_case(row) if row.part in rest else ""
        if case:
            rest[row.part] -= row.exposed_ms_per_step
            of_case[case] += row.exposed_ms_per_step
    kinds = {name.rpartition(":")[2] for name, ms in rest.items() if ms >= enough}
    kinds |= {case for case, ms in of_case.items() if ms and ms >= enough}
    seen: dict[str, Callable[[HostStackRow], bool]] = {
        "flax": _walks_flax,
        "module": runs_module,
        _DEPENDENT: lambda row: (
            row.part == _PYTHON and not _puts_away(row) and not _own_case(row) and _follows(row, reads)
        ),
    }
    for case, test in seen.items():
        rows = [row for row in stacks if row.part in sampled and test(row)]
        if rows and sum(row.exposed_ms_per_step for row in rows) >= enough:
            kinds.add(case)
    if jax and unended_read(stacks, READ_BY) and sampled.get(WAIT, 0.0) >= enough:
        kinds = kinds - {"wait"} | {"read"}
    own = {"own"} if kinds - _OTHERS_WORK - seen.keys() or not kinds else set()
    return frozenset(kinds | own)


def runs_module(row: HostStackRow) -> bool:
    """Whether a module computes on the host: code of torch runs in it, and gives the device no work."""
    in_torch = row.part == _PYTHON and bool(row.frames) and _TORCH in row.frames[-1]
    return in_torch and any(_MODULES in frame for frame in row.frames)


def _walks_flax(row: HostStackRow) -> bool:
    return any(_FLAX in frame for frame in row.frames)


def _own_case(row: HostStackRow) -> str:
    """The case of time that has advice of its own, whatever the part it went to; empty for all other time."""
    if looks_at_program(row.frames):
        return _PROGRAM
    collects = row.part == _PYTHON and any(_COLLECTS.search(call) for call in (row.call, row.user_call))
    return _GARBAGE if collects else ""


def _puts_away(row: HostStackRow) -> bool:
    return any(_PUTS_AWAY.search(call) for call in (row.call, row.user_call))


def _follows(row: HostStackRow, reads: Collection[str]) -> bool:
    """Whether a frame of the stack is at a line that reads a value, or a few lines below one in the same file."""
    read_at = {place for source in reads if (place := _place(source))}
    at = {place for frame in row.frames if (place := _place(source_of(frame)))}
    return any(file == of and 0 <= line - read <= NEAR_LINES for file, line in at for of, read in read_at)


def _place(source: str) -> tuple[str, int] | None:
    """File and line of `file:line`; None of anything else."""
    file, _, line = source.rpartition(":")
    return (file, int(line)) if line.isdecimal() else None
