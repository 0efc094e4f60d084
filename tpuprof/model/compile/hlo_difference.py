"""Two HLO programs as text, and the lines that differ, as people read a diff.

Numbers at the end of names (`fusion.12`) are left out: XLA chooses them newly for every program, so they would make
every line differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuprof.decode.hlo import HloModule, Instruction

# Lines of a program compared at most: matching takes time that grows faster than the programs.
MAX_LINES = 4_000
# Equal lines shown around a change.
_CONTEXT = 2
_NUMBER = re.compile(r"(\.(\d+|clone|remat\d*))+(?=$|[^\w])")
_ATTRIBUTES_SHOWN = ("sharding", "dimensions", "replica_groups", "custom_call_target")


@dataclass(frozen=True)
class DiffLine:
    """One line of a difference: kind is added, removed, same, or place (a computation's name, a gap)."""

    kind: str
    text: str


@dataclass(frozen=True)
class Difference:
    """The lines that tell two programs apart. `cut` says that only the first `MAX_LINES` lines were compared."""

    lines: list[DiffLine]
    added: int
    removed: int
    cut: bool


def difference(new: HloModule, old: HloModule) -> Difference:
    """The lines of `new` and `old` that differ, with what stands around them."""
    after, before = listing(new), listing(old)
    cut = len(after) > MAX_LINES or len(before) > MAX_LINES
    after, before = after[:MAX_LINES], before[:MAX_LINES]
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    lines: list[DiffLine] = []
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        lines.append(DiffLine("place", _computation_at(before, group[0][1])))
        for kind, old_from, old_to, new_from, new_to in group:
            if kind == "equal":
                lines += [DiffLine("same", text) for text in before[old_from:old_to]]
                continue
            lines += [DiffLine("removed", text) for text in before[old_from:old_to]]
            lines += [DiffLine("added", text) for text in after[new_from:new_to]]
    added = sum(line.kind == "added" for line in lines)
    return Difference(lines, added, sum(line.kind == "removed" for line in lines), cut)


def listing(module: HloModule) -> list[str]:
    """A program as lines: its inputs, the entry computation, then the others by name, numbers of names left out.

    A fixed order keeps what did not change in the same place, whatever order XLA wrote it in.
    """
    entry = module.entry
    lines = ["INPUTS:", *(f"  {_line(each)}" for each in entry.parameters())]
    lines += [f"ENTRY {_bare(entry.name)}:"]
    lines += [f"  {_line(each)}" for each in entry if each.opcode != "parameter"]
    others = [each for each in module.computations.values() if each.name != module.entry_name]
    bodies = [(f"{_bare(each.name)}:", [f"  {_line(one)}" for one in each]) for each in others]
    for name, body in sorted(bodies):
        lines += [name, *body]
    return lines


def _line(each: Instruction) -> str:
    inside = each.literal if each.literal is not None else ", ".join(map(_bare, each.operands))
    if each.opcode == "parameter":
        inside = str(each.parameter_number)
    more = [f"{key}={each.attributes[key]}" for key in _ATTRIBUTES_SHOWN if key in each.attributes]
    more += [f"{key}={_bare(', '.join(names))}" for key, names in each.called.items()]
    tail = "".join(f", {part}" for part in more)
    return f"{_bare(each.name)} = {each.shape} {each.opcode}({inside}){tail}"


def _bare(name: str) -> str:
    return _NUMBER.sub("", name)


def _computation_at(lines: list[str], row: int) -> str:
    """The computation a line is in."""
    while row > 0 and (row >= len(lines) or lines[row].startswith("  ")):
        row -= 1
    return f"in {lines[row].rstrip(':')}" if lines else ""
