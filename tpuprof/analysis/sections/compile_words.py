"""What a verdict on compiles adds: the line that most of them are for, and what changed there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tpuprof.report.schema import CompileRow
from tpuprof.report.user_frames import is_users_line

# Share of the time of compiles from which one line, or one cause at it, is most of it: half.
MOST_FROM_SHARE = 0.5
# What graphs of a cause are compiled for.
_FOR = {
    "shape": "new input shapes",
    "dtype": "inputs of another type",
    "constant": "a constant that changes",
    "graph": "graphs with other ops or inputs",
    "sharding": "inputs that are split otherwise",
    "first": "graphs that run for the first time",
    "again": "programs that were compiled before",
}


def said_of_compiles(compiles: Sequence[CompileRow]) -> str:
    """The line of most of what compiles in steps, with its cause where one is most of that; empty where none is."""
    inside = [row for row in compiles if row.step is not None]
    of_line: dict[str, float] = defaultdict(float)
    for row in inside:
        of_line[row.cause.place] += row.duration_ms
    line = max(of_line, key=lambda each: of_line[each], default="")
    if not is_users_line(line) or of_line[line] < MOST_FROM_SHARE * sum(of_line.values()):
        return ""
    of_kind: dict[str, float] = defaultdict(float)
    for row in inside:
        if row.cause.place == line:
            of_kind[row.cause.kind] += row.duration_ms
    kind = max(of_kind, key=lambda each: of_kind[each])
    why = _FOR.get(kind, "") if of_kind[kind] >= MOST_FROM_SHARE * of_line[line] else ""
    return f" Most of it is for {why}, at {line}." if why else f" Most of it is at {line}."
