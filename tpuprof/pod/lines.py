"""On which hosts a line of the program costs time, and on which of them most: what a mean over all hosts hides."""

from __future__ import annotations

from dataclasses import field

from tpuprof.analysis.sections.host_stacks import LEAST_SHARE, StackSums
from tpuprof.records import record
from tpuprof.report.pod import LinePartRow
from tpuprof.units import PS_PER_MS

# Lines listed (rows), those that cost one host most first.
LISTED = 100
# Hosts named of a line (rows).
NAMED = 32


@record
class _Line:
    """One line in one part: the hosts that have it, the one that it costs most, and there its ps, calls and steps."""

    hosts: int = 0
    names: list[str] = field(default_factory=list)
    host: str = ""
    exposed_ps: int = 0
    hidden_ps: int = 0
    steps: int = 1
    call: str = ""


class Lines:
    """Adds up lines host by host; hosts come by name, so that their order elsewhere changes nothing."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], _Line] = {}

    def add(self, host: str, stacks: StackSums) -> None:
        """The lines of one host; those that hardly cost it anything are passed over."""
        own: dict[tuple[str, str], tuple[int, int]] = {}
        calls: dict[tuple[str, str], dict[str, int]] = {}
        for stack, part, exposed, hidden, _ in stacks.rows:
            if not stack.source:
                continue
            key = part, stack.source
            before = own.get(key, (0, 0))
            own[key] = before[0] + exposed, before[1] + hidden
            of_line, call = calls.setdefault(key, {}), stack.user_call or stack.call
            of_line[call] = of_line.get(call, 0) + exposed + hidden
        for key, (exposed, hidden) in own.items():
            if exposed + hidden >= LEAST_SHARE * stacks.wall_ps:
                self._count(host, key, exposed, hidden, stacks.steps, calls[key])

    def _count(
        self, host: str, key: tuple[str, str], exposed: int, hidden: int, steps: int, calls: dict[str, int]
    ) -> None:
        line = self._lines.setdefault(key, _Line())
        line.hosts += 1
        if len(line.names) < NAMED:
            line.names.append(host)
        # Whole numbers, so that no rounding decides between two hosts.
        if not line.host or (exposed * line.steps, hidden * line.steps) > (
            line.exposed_ps * steps,
            line.hidden_ps * steps,
        ):
            line.host, line.exposed_ps, line.hidden_ps, line.steps = host, exposed, hidden, steps
            line.call = max(calls, key=lambda call: (calls[call], call))

    def rows(self) -> list[LinePartRow]:
        """The lines that cost one host most."""
        rows = [
            LinePartRow(
                part,
                source,
                line.call,
                line.hosts,
                line.names,
                line.host,
                line.exposed_ps / line.steps / PS_PER_MS,
                line.hidden_ps / line.steps / PS_PER_MS,
            )
            for (part, source), line in self._lines.items()
        ]
        rows.sort(key=lambda row: (-row.exposed_ms_per_step, -row.hidden_ms_per_step, row.part, row.source))
        return rows[:LISTED]
