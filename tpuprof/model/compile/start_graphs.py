"""Steps before the captured ones that each compiled a graph of their own, until there was one for each case.

A buffer that is filled at a Python number (`queue[:, i:i + n] = rows`) has as many graphs as positions. Training is
steady once all of them are compiled, so no captured step shows what they took.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile

from tpuprof.model.compile.cause import CompileCause, explain
from tpuprof.model.compile.compiles import function_of
from tpuprof.model.compile.newest import number_of
from tpuprof.model.compile.programs import Programs
from tpuprof.model.telemetry import StepRecord
from tpuprof.records import record

# Steps that compiled for one line from which they are many (steps): a program compiles in two or three steps as it
# starts (new state of the optimizer, donated inputs). Of 40 kept captures three compiled for long in more, for cases of
# the same step (lengths of batches, dropped layers, positions in a queue).
MANY_STEPS = 4
# Time of these compiles from which they are worth a look at their graphs (s), which takes some tenths of a second.
LEAST_SECONDS = 10.0
# The newest graphs that are compared, each with so many before it (graphs): what changes is the same in all of them.
COMPARED, WITH = 4, 8


@record(frozen=True)
class StartGraphs:
    """`steps` of the first `of` steps compiled for one line, and why: the cause that most of the last ones have.

    `of` is 0 where no step was seen before a recording by the clock: `steps` are then calls. `share` is what they took
    of the time of all compiles before the captured steps.
    """

    steps: int
    of: int
    share: float
    cause: CompileCause


def start_graphs(records: Sequence[StepRecord], protos: Mapping[str, bytes]) -> StartGraphs | None:
    """What the process noted of them; None where they are few, or their graphs are not in the profile."""
    before = list(takewhile(lambda each: each.before, (each for each in records if each.is_step)))
    prepared = [each for each in records if each.before] if not any(each.is_step for each in records) else []
    seconds: Counter[str] = Counter()
    for each in before or prepared:
        seconds.update(each.line_seconds)
    line = max(seconds, key=lambda each: seconds[each], default="")
    compiled = [row for row, each in enumerate(before) if line in each.line_seconds]
    steps, of = len(compiled), compiled[-1] + 1 if compiled else 0
    if prepared:
        # Small functions compile at that line, too.
        steps = min(sum(each.lines.get(line, 0) for each in prepared), len(_of_main_function(protos)))
    if steps < MANY_STEPS or seconds[line] < LEAST_SECONDS:
        return None
    causes = [each for each in _causes(protos) if each.kind not in ("first", "unknown")]
    if not causes:
        return None
    kind, _ = Counter(each.kind for each in causes).most_common(1)[0]
    alike = [each for each in causes if each.kind == kind]
    cause = next((each for each in alike if each.source), alike[0])
    share = seconds[line] / seconds.total()
    return StartGraphs(steps, of, share, cause)


def _of_main_function(protos: Mapping[str, bytes]) -> list[str]:
    """The programs of the function whose programs are the largest together, the oldest first.

    Ops that make a model's parameters one by one are more programs than its step has, and small ones.
    """
    sizes: Counter[str] = Counter()
    for name, data in protos.items():
        sizes[function_of(name)] += len(data)
    main = max(sizes, key=lambda each: sizes[each], default="")
    return sorted(
        (name for name in protos if function_of(name) == main), key=lambda name: number_of(name) or 0
    )


def _causes(protos: Mapping[str, bytes]) -> list[CompileCause]:
    """Why the newest graphs of that function were compiled."""
    names = _of_main_function(protos)
    programs = Programs.of(protos)
    return [
        explain(names[row], names[max(row - WITH, 0) : row][::-1], programs)
        for row in range(max(len(names) - COMPARED, 1), len(names))
    ]
