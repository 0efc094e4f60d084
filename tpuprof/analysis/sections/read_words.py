"""What a verdict says of the reads that it is about: the first one's line, and how many others read for about as long.

Its cost, and the price, are those of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tpuprof import parts as part
from tpuprof.analysis.sections.steps import host_read_rows
from tpuprof.model.host.reads import spoken_read
from tpuprof.model.run import Run
from tpuprof.model.step_times import Bound
from tpuprof.model.verdict_words import READS_IN_STEPS_SHARE
from tpuprof.own_events import WAITS_ALONE
from tpuprof.report.host_lines import library_place, noted_place
from tpuprof.report.schema import HostReadRow
from tpuprof.report.sections import HostStackRow
from tpuprof.units import counted

# Reads per step from which a line reads several values, and the sentence says how many (reads): one that a step now and
# then makes twice is still one. A judgement.
SEVERAL_READS_FROM = 1.5
_AND = ", and reads at "
# Share of what the first line's reads block from which another line's are worth a word (share): a quarter, as of what
# dispatch is made of.
OTHERS_FROM_SHARE = 0.25


def other_lines(reads: Sequence[HostReadRow]) -> str:
    """At how many further lines reads block for about as long as the first; empty where none does."""
    sources = {
        each.source
        for each in reads
        if each.source and each.blocked_ms_per_step >= OTHERS_FROM_SHARE * reads[0].blocked_ms_per_step
    } - {reads[0].source}
    return _AND + counted(len(sources), "other line") if sources else ""


def says_several(sentence: str) -> bool:
    """Whether a verdict names reads of several lines."""
    return _AND in sentence


def _reads_often(run: Run, bound: Bound) -> list[HostReadRow]:
    """The reads of most steps, longest first. One that happens once, at the end say, waits longest of all.

    Where the verdict is about graphs that reads run, it is one that does: a wait for the end of the step blocks longer.
    """
    often = READS_IN_STEPS_SHARE * sum(len(host.steps) for host in run.hosts)
    rows = [each for each in host_read_rows(run.hosts) if each.occurrences >= often]
    if bound.again or bound.by_cuts:
        graphs = [each for host in run.hosts for each in host.read_graphs if each.again_ps or not bound.again]
        running = {(each.call, each.source) for each in graphs}
        rows = [each for each in rows if (each.call, each.source) in running] or rows
    return rows


def named_read(run: Run, stacks: list[HostStackRow], bound: Bound) -> str:
    """The read that the verdict is about, its line, and where in a library it is; empty where no line is known."""
    reads = _reads_often(run, bound)
    if not reads or not reads[0].source:
        return ""
    read = reads[0]
    it_is, more = ("The longest read is", "") if bound.waits else ("It is", other_lines(reads))
    noted = read.inside is not None
    inside = noted_place(read.inside or {}) if noted else library_place(stacks, part.HOST_SYNC, read.source)
    within = f" (in {inside})" if inside else ""
    call = spoken_read(read.call, run.hosts[0].framework)
    return f" {it_is} {call} at {read.source}{within}{how_often(run, read)}{more}."


def how_often(run: Run, read: HostReadRow) -> str:
    """How often per step a line reads, where it reads several values; else empty."""
    steps = sum(len(host.steps) for host in run.hosts)
    times = read.occurrences / steps
    about = "" if read.occurrences % steps == 0 else "about "
    return f", {about}{times:.0f} times per step" if times >= SEVERAL_READS_FROM else ""


def waits_alone(run: Run, bound: Bound) -> bool:
    """Whether the read that the verdict is about is a wait, and gives no value."""
    reads = _reads_often(run, bound)
    return bool(reads) and reads[0].call in WAITS_ALONE
