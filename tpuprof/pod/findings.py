"""What rules found on many hosts: each rule once, with how many hosts it failed on."""

from __future__ import annotations

from dataclasses import replace

from tpuprof.model.run import Run
from tpuprof.pod.digest import FAILED, Digest
from tpuprof.report.pod import RuleHostsRow
from tpuprof.report.schema import Finding, Report
from tpuprof.rules.registry import all_rules
from tpuprof.rules.runner import run_rules
from tpuprof.signals import Signals

# The rule that compares hosts: it is asked of all of them together.
ACROSS_HOSTS = "straggler-host"
# Hosts named of a rule (rows).
NAMED = 8


def rule_rows(digests: list[Digest]) -> list[RuleHostsRow]:
    """Every rule that failed on a host, the one that failed on most first."""
    hosts: dict[str, list[str]] = {}
    for each in digests:
        for finding in each.failed:
            hosts.setdefault(finding.rule, []).append(each.name)
    rows = [RuleHostsRow(rule, len(names), names[:NAMED]) for rule, names in hosts.items()]
    return sorted(rows, key=lambda row: (-row.hosts, row.rule))


def merged_findings(report: Report, run: Run, digests: list[Digest], shown: int) -> list[Finding]:
    """Findings of the host that is shown, and of others the worst of each rule that failed on them alone."""
    count = {row.rule: row.hosts for row in rule_rows(digests)}
    own = {each.rule for each in digests[shown].failed}
    worst: dict[str, tuple[float, str, Finding]] = {}
    for digest in digests:
        for finding in digest.failed:
            before = worst.get(finding.rule)
            if before is None or (-finding.severity, digest.name) < (-before[0], before[1]):
                worst[finding.rule] = finding.severity, digest.name, finding
    found = []
    for each in report.findings:
        if each.rule == ACROSS_HOSTS:
            continue
        where, finding = digests[shown].name, each
        if each.rule not in own and each.rule in worst:
            _, where, finding = worst[each.rule]
        if finding.status == FAILED:
            finding = replace(
                finding, title=f"{finding.title} ({_on(count[each.rule], len(digests))}; shown: {where})"
            )
        found.append(finding)
    found += _across(report, run)
    weight = {rule: hosts / len(digests) for rule, hosts in count.items()}
    return sorted(
        found,
        key=lambda each: (
            (each.status != FAILED, -each.severity * weight.get(each.rule, 1.0))
            if each.status == FAILED
            else (True, 0.0)
        ),
    )


def _on(hosts: int, of: int) -> str:
    return f"on {hosts:,} of {of:,} hosts"


def _across(report: Report, run: Run) -> list[Finding]:
    """The rule that compares hosts."""
    rules = [rule for rule in all_rules() if rule.id == ACROSS_HOSTS]
    return run_rules(Signals(report, run), rules)
