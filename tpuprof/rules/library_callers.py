"""Lines of the program that lead to a library's line: an op of a layer is at that layer's own line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tpuprof.report.labels import source_of
from tpuprof.report.schema import Evidence, Finding
from tpuprof.report.sections import HostStackRow
from tpuprof.report.user_frames import is_users_line, last_users_line
from tpuprof.rules.base import FAILED
from tpuprof.signals import Signals, Unavailable

# Share of the samples at a library's line that one line of the program must lead to for that to be named (share): more
# than all others together. A judgement.
FROM_SHARE = 0.5


def with_caller(finding: Finding, signals: Signals) -> Finding:
    """The finding, whose evidence ends with the line that calls its library's line, where it names no other one.

    Stacks of the training thread tell it, where a sample saw the host there.
    """
    sources = [each.source for each in finding.evidence if each.source]
    if finding.status != FAILED or not sources or any(map(is_users_line, sources)):
        return finding
    stacks = stacks_of(signals)
    for source in dict.fromkeys(sources):
        line = caller_of(source, stacks)
        if line:
            called = Evidence("calls the library there", source=line)
            return replace(finding, evidence=[*finding.evidence, called])
    return finding


def stacks_of(signals: Signals) -> Sequence[HostStackRow]:
    """Sampled stacks of the training thread; empty where the trace has none, nor a thread of which they could be."""
    try:
        return signals.stacks_if_sampled
    except Unavailable:
        return ()


def caller_of(source: str, stacks: Sequence[HostStackRow]) -> str:
    """The line of the program from which most samples at a library's line came; empty where none stands out."""
    callers: Counter[str] = Counter()
    for row in stacks:
        lines = [source_of(frame) for frame in row.frames]
        if source in lines:
            callers[last_users_line(row.frames[: lines.index(source)])] += row.samples
    (line, samples), *_ = callers.most_common(1) or [("", 0)]
    return line if samples > FROM_SHARE * callers.total() else ""
