"""Lines of the user's code that much of a program comes from, where no layers are seen to repeat in it.

A Python loop over time, tasks or heads leaves its ops once per turn in the program: 64 turns of a line with five ops
are 640 instructions with their gradients, and 40,000 once they are compiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tpuprof.model.compile.hlo_metadata import source_lines
from tpuprof.own_events import is_users_file
from tpuprof.records import record

# Ops of a line, and their share of the ops that name a line, from which on it is named (ops, share). One line that runs
# once makes a few dozen ops. Judgements.
FROM_OPS, FROM_SHARE = 500, 0.1
# Lines given (lines).
SHOWN = 3


@record(frozen=True)
class ProgramLine:
    """A line that `ops` of a program's ops come from, a share of those that name a line."""

    program: str
    source: str
    ops: int
    share: float


def lines_of_program(program: str, protos: Mapping[str, bytes]) -> list[ProgramLine]:
    """The user's lines that most ops of a program come from, that with most of them first.

    Empty where no line stands out, or the program is not in `protos`, those of the trace.
    """
    if program not in protos:
        return []
    count = Counter(source_lines(program, protos[program]))
    ops = count.total()
    return [
        ProgramLine(program, source, number, number / ops)
        for source, number in count.most_common(SHOWN)
        if number >= FROM_OPS and number >= FROM_SHARE * ops and is_users_file(source.rpartition(":")[0])
    ]
