"""Says in findings of a run of several hosts which host they were seen on, and what their numbers are a mean of."""

from __future__ import annotations

import re
from dataclasses import replace

from tpuprof.report.schema import Finding
from tpuprof.rules.base import FAILED, Rule


def with_hosts(found: list[tuple[Rule, Finding]], hosts: list[str]) -> list[Finding]:
    """The findings, failed ones with their host in the title; those of one host are as they were."""
    if len(hosts) < 2:
        return [finding for _, finding in found]
    return [
        _with_host(finding, hosts, of_one_host=rule.of_one_host) if finding.status == FAILED else finding
        for rule, finding in found
    ]


def _with_host(finding: Finding, hosts: list[str], *, of_one_host: bool) -> Finding:
    if any(re.search(rf"(?<![\w-]){re.escape(host)}(?![\w-])", finding.title) for host in hosts):
        return finding
    seen = list(dict.fromkeys(each.host for each in finding.evidence if each.host))
    where = f"seen on {seen[0]}" if len(seen) == 1 else f"seen on {len(seen)} of them" if seen else ""
    what = f"one of {len(hosts)} hosts" if of_one_host else f"mean of {len(hosts)} hosts"
    return replace(finding, title=f"{finding.title} ({', '.join(filter(None, (what, where)))})")
