"""Says in findings of a run of several hosts which host they were seen on, and what their numbers are a mean of."""

from __future__ import annotations

import re
from dataclasses import replace

from tpuprof.report.schema import Finding
from tpuprof.rules.base import FAILED, Rule


def with_hosts(found: list[tuple[Rule, Finding]], hosts: list[str], in_means: int) -> list[Finding]:
    """The findings, failed ones with their host in the title; those of one host are as they were.

    Figures are means of so many of the hosts (`in_means`).
    """
    if len(hosts) < 2:
        return [finding for _, finding in found]
    return [
        _with_host(finding, hosts, _of(rule, finding, len(hosts), in_means))
        if finding.status == FAILED
        else finding
        for rule, finding in found
    ]


def _of(rule: Rule, finding: Finding, hosts: int, in_means: int) -> str:
    """Which hosts its numbers are of; empty where it has none."""
    if rule.of_one_host:
        # Seen on several, its numbers are those of one of them all the same.
        return f"{'numbers of ' if len(_seen(finding)) > 1 else ''}one of {hosts} hosts"
    return f"mean of {in_means} hosts" if in_means > 1 and (finding.severity or finding.savings) else ""


def _with_host(finding: Finding, hosts: list[str], what: str) -> Finding:
    if any(re.search(rf"(?<![\w-]){re.escape(host)}(?![\w-])", finding.title) for host in hosts):
        return finding
    seen = _seen(finding)
    where = f"seen on {seen[0]}" if len(seen) == 1 else f"seen on {len(seen)} of them" if seen else ""
    said = ", ".join(filter(None, (what, where)))
    return replace(finding, title=f"{finding.title} ({said})") if said else finding


def _seen(finding: Finding) -> list[str]:
    """The hosts that its evidence names."""
    return list(dict.fromkeys(each.host for each in finding.evidence if each.host))
