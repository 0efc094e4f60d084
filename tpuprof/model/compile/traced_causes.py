"""Why TorchTPU compiled, by the programs that TORCH_TRACE logs: each is compared with the nearest one of its name.

The log has the programs of the whole process, and the trace the compiles of a few steps, in an order of their own. So a
compile gets the cause that most programs of its name have, and one example of it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from tpuprof.decode.torch_trace import TracedProgram
from tpuprof.model.compile.cause import OPS_CHANGED, CompileCause, list_of
from tpuprof.model.compile.compiles import Compile

# Earlier programs of a name that one is compared with (programs).
COMPARED = 64
# Programs of a name from which they are one program that changes (programs): a judgement.
SEVERAL_FROM = 4
_CONSTANT = re.compile(r"dense<([^>]*)>")
_NUMBER = re.compile(r"-?\d[\d.eE+]*")
# Causes of a program that is new altogether, or compiled twice: any other kind says more.
_LEAST = ("first", "again")


def with_traced_causes(compiles: list[Compile], programs: Sequence[TracedProgram]) -> list[Compile]:
    """The compiles; those of a name that the log has get its cause."""
    by_name: dict[str, list[TracedProgram]] = defaultdict(list)
    for each in programs:
        by_name[each.name].append(each)
    wanted = {each.program for each in compiles}
    causes = {name: _usual([cause_of(rows, at) for at in range(len(rows))]) for name, rows in by_name.items()
              if name in wanted}  # fmt: skip
    return [replace(each, cause=causes.get(each.program, each.cause)) for each in compiles]


def _usual(causes: list[CompileCause]) -> CompileCause:
    if len(causes) < SEVERAL_FROM:
        return causes[0]  # layers of other sizes have programs of one name, too
    kinds = Counter(each.kind for each in causes if each.kind not in _LEAST)
    kind = kinds.most_common(1)[0][0] if kinds else causes[-1].kind
    return [each for each in causes if each.kind == kind][-1]


def cause_of(programs: Sequence[TracedProgram], at: int) -> CompileCause:
    """Why the program at that place was compiled, given those of its name before it."""
    new = programs[at]
    source = new.sources[-1] if new.sources else ""
    earlier = programs[max(0, at - COMPARED) : at]
    same = [each for each in earlier if len(each.inputs) == len(new.inputs)]
    if not earlier:
        return CompileCause("first", "the first program of this name that TORCH_TRACE logged", source)
    if not same:
        counts = f"{len(new.inputs)} inputs, the program before it {len(earlier[-1].inputs)}"
        return CompileCause("graph", f"it takes {counts}", source)
    old = min(reversed(same), key=lambda each: _distance(new, each))
    kind, detail = _difference(new, old)
    return CompileCause(kind, detail, source)


def _distance(new: TracedProgram, old: TracedProgram) -> int:
    sizes = [pair for one, other in zip(new.inputs, old.inputs, strict=True)
             for pair in zip(one.split("x"), other.split("x"), strict=False)]  # fmt: skip
    return sum(one != other for one, other in sizes)


def _difference(new: TracedProgram, old: TracedProgram) -> tuple[str, str]:
    inputs = [(was, now) for was, now in zip(old.inputs, new.inputs, strict=True) if was != now]
    if inputs:
        kind = "dtype" if all(_dims(was) == _dims(now) for was, now in inputs) else "shape"
        noun = "an input" if len(inputs) == 1 else f"{len(inputs)} inputs"
        return (
            kind,
            f"{noun} changed: {list_of([f'{_typed(was)} became {_typed(now)}' for was, now in inputs])}",
        )
    if new.body == old.body:
        return "again", "a program with the same inputs, constants and ops was compiled before"
    if _CONSTANT.sub("", new.body) == _CONSTANT.sub("", old.body):
        return (
            "constant",
            f"a number that Python baked into the program changed: {_changes(_CONSTANT, new, old)}",
        )
    if _NUMBER.sub("", new.body) == _NUMBER.sub("", old.body):
        return "constant", f"a size in the program changed, and no input did: {_changes(_NUMBER, new, old)}"
    return "graph", OPS_CHANGED


def _changes(pattern: re.Pattern[str], new: TracedProgram, old: TracedProgram) -> str:
    pairs = zip(pattern.findall(old.body), pattern.findall(new.body), strict=True)
    return list_of(list(dict.fromkeys(f"{was[:40]} became {now[:40]}" for was, now in pairs if was != now)))


def _dims(text: str) -> list[str]:
    return text.split("x")[:-1]


def _typed(text: str) -> str:
    """`32x256xf32` as `f32[32,256]`."""
    *dims, dtype = text.split("x")
    return f"{dtype}[{','.join(dims)}]"
