"""What there is to say of many hosts, one line each, for people at a terminal."""

from __future__ import annotations

from tpuprof.parts import HOST_PREFIX, title_of
from tpuprof.report.host_lines import at_line
from tpuprof.report.pod import HostGroupRow, LinePartRow, Pod, StragglerRow
from tpuprof.units import counted, format_ms, format_share

# Groups and stragglers that get a line (rows); the JSON has all.
SHOWN = 8
# Hosts named in a line (hosts).
_NAMED = 3
# Lines of the program that get a line (rows).
LINES = 4


def pod_lines(pod: Pod | None) -> list[str]:
    """Groups of like hosts, stragglers, and what could not be read or compared; names are as in the trace."""
    if pod is None:
        return []
    lines = [_group(row, first=place == 0) for place, row in enumerate(pod.groups[:SHOWN])]
    lines += _rest(len(pod.groups) - SHOWN, "group of hosts", "groups of hosts")
    lines += [straggler_line(row) for row in pod.stragglers[:SHOWN]]
    lines += _rest(len(pod.stragglers) - SHOWN, "straggler", "stragglers")
    if pod.skew_ms is not None:
        lines.append(f"in the median step the last host is {format_ms(pod.skew_ms)} later than the first")
    if pod.failed:
        lines.append(f"{counted(len(pod.failed), 'host')} could not be read: {_names(list(pod.failed))}")
    if pod.not_compared:
        lines.append(
            f"{counted(len(pod.not_compared), 'host')} not compared, because of other steps: "
            f"{_names(pod.not_compared)}"
        )
    return [*lines, *pod.notes, *([pod.sampled] if pod.sampled else [])]


def line_facts(pod: Pod) -> list[str]:
    """The lines outside tracing that cost one host most, with that host's time: a mean would be no host's."""
    rows = [row for row in pod.lines if row.part.startswith(HOST_PREFIX) and row.exposed_ms_per_step]
    return [f"{title_of(row.part)}: {at_line(row.call, row.source)}, {_on(row, pod)}" for row in rows[:LINES]]


def _on(row: LinePartRow, pod: Pod) -> str:
    time = format_ms(row.exposed_ms_per_step)
    if row.hosts == 1:
        return f"on {row.host} alone, {time} per step"
    hosts = _names(row.names) if row.hosts <= _NAMED else f"{row.hosts:,} of {counted(pod.analyzed, 'host')}"
    return f"on {hosts}, at most {time} per step (on {row.host})"


def straggler_line(row: StragglerRow) -> str:
    """One straggler: by how much it is late, what it is longer in, which chip it is."""
    text = (
        f"{row.host} is {format_ms(row.lag_ms_per_step)} per step ({format_share(row.share)}) behind the middle "
        f"host, in {counted(row.steps, 'step')}, by {row.method}"
    )
    if row.part and row.excess_ms_per_step is not None:
        text += f"; {title_of(row.part)} takes {format_ms(row.excess_ms_per_step)} longer"
    return text + (f"; {row.chip} holds it up" if row.chip else "")


def _group(row: HostGroupRow, *, first: bool) -> str:
    like = "like this" if first else f"({_names(row.names, row.hosts)})"
    return f"{counted(row.hosts, 'host')} {like}: {row.text}"


def _names(names: list[str], count: int | None = None) -> str:
    rest = (len(names) if count is None else count) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest:,} more" if rest > 0 else "")


def _rest(count: int, one: str, many: str) -> list[str]:
    return [f"{count:,} more {one if count == 1 else many}"] if count > 0 else []
