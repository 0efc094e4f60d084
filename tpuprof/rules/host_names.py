"""Says in findings of a run of several hosts which host they were seen on, and what their numbers are a mean of."""

from __future__ import annotations

from dataclasses import replace

from tpuprof.report.schema import Finding
from tpuprof.rules.base import FAILED


def with_hosts(findings: list[Finding], hosts: list[str]) -> list[Finding]:
    """The findings, failed ones with their host in the title; those of one host are as they were."""
    if len(hosts) < 2:
        return findings
    return [_with_host(each, hosts) if each.status == FAILED else each for each in findings]


def _with_host(finding: Finding, hosts: list[str]) -> Finding:
    if any(host in finding.title for host in hosts):
        return finding
    seen = list(dict.fromkeys(each.host for each in finding.evidence if each.host))
    where = f", seen on {seen[0]}" if len(seen) == 1 else f", seen on {len(seen)} of them" if seen else ""
    return replace(finding, title=f"{finding.title} (mean of {len(hosts)} hosts{where})")
