"""On which hosts of a pod a finding holds, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuprof.render.savings import saved_amount

if TYPE_CHECKING:
    from tpuprof.report.pod import FindingHosts
    from tpuprof.report.schema import Finding, Report

# Hosts and lines named in a sentence (names, lines); the JSON has more.
NAMED = 4
LINES = 3


def host_sentences(finding: Finding) -> list[str]:
    """On which hosts and lines it is, whose figures these are, and what others save; empty outside a pod."""
    told = finding.on_hosts
    if told is None:
        return []
    lines = _at(told)
    # That it is on all hosts is in the title.
    where = f"{_where(told)}{lines}." if lines or told.hosts < told.of else ""
    return [each for each in (where, _whose(told)) if each]


def finding_rows(report: Report) -> list[dict[str, object]]:
    """Every rule that failed on hosts of a pod as a row of a table."""
    return [
        {
            "rule": each.rule,
            "hosts": told.hosts,
            "which": _where(told).partition(" ")[2].removeprefix("on "),
            "lines": _at(told).removeprefix(", at ").removeprefix(": "),
            "a fix saves": "; ".join(f"{saved_amount(row)} on {row.host}" for row in told.prices),
        }
        for each in report.findings
        if (told := each.on_hosts) is not None
    ]


def _where(told: FindingHosts) -> str:
    if told.hosts == told.of:
        where = f"On all {told.of:,} hosts"
    elif told.others:
        left = told.of - told.hosts
        where = f"On {told.hosts:,} of {told.of:,} hosts, not on {names(told.others, left)}"
    else:
        where = f"Only on {names(told.names, told.hosts)} of {told.of:,} hosts"
    return where + (f" ({told.undecided:,} could not tell)" if told.undecided else "")


def _at(told: FindingHosts) -> str:
    known = [row for row in told.lines if row.source]
    if not known:
        return ""
    if len(known) == 1 and known[0].hosts == told.hosts:
        return f", at {known[0].source}"
    shown = "; ".join(f"{row.source} on {_hosts(row.names, row.hosts)}" for row in known[:LINES])
    rest = len(known) - LINES
    return f": {shown}" + (f"; {rest:,} more line{'s' if rest > 1 else ''}" if rest > 0 else "")


def _hosts(found: list[str], count: int) -> str:
    return names(found, count) if count <= NAMED else f"{count:,} hosts ({found[0]}, ...)"


def _whose(told: FindingHosts) -> str:
    if told.of == 1:
        return ""
    head = f"Price and evidence are those of {told.shown}"
    if len(told.prices) > 1 and len({saved_amount(row) for row in told.prices}) == 1:
        return f"{head}; fixing it saves as much on the other hosts."
    ends = {"least": told.prices[0], "most": told.prices[-1]} if told.prices else {}
    others = [
        f"{word} on {row.host} ({saved_amount(row)})" for word, row in ends.items() if row.host != told.shown
    ]
    return f"{head}; the price is {' and '.join(others)}." if others else f"{head}."


def names(found: list[str], count: int) -> str:
    """The first names, and how many more there are."""
    rest = count - min(len(found), NAMED)
    return ", ".join(found[:NAMED]) + (f" and {rest:,} more" if rest > 0 else "")
