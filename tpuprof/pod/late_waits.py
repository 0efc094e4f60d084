"""Findings on communication, without what devices wait in it for another host: a host's own report cannot know that."""

from __future__ import annotations

from dataclasses import replace

from tpuprof.model.run import Run
from tpuprof.report.schema import Finding, Report, Savings
from tpuprof.rules.base import FAILED
from tpuprof.rules.registry import all_rules
from tpuprof.rules.runner import run_rules
from tpuprof.signals import Signals, Unavailable

# The rules that count such waits as communication where they look at one host.
OF_COMMUNICATION = ("exposed-collectives", "exposed-parameter-gather")
# Why these have no price of their own: it is a part of that of the host that is shown.
NO_REPLAY = "hosts of a pod are not replayed together"
# How a title says of which hosts it is: the pod's own words follow.
_OF_HOSTS = " (mean of "
NOTE = "the rest is a wait for another host"


def without_late_waits(findings: list[Finding], report: Report, run: Run) -> list[Finding]:
    """The findings; those on communication say of all hosts together what of it is no wait for one that comes last."""
    wanted = {each.rule for each in findings if each.rule in OF_COMMUNICATION and each.status == FAILED}
    if not wanted:
        return findings
    signals = Signals(report, run)
    try:
        left = signals.beside_late_hosts()
    except Unavailable:
        return findings
    if left >= 1:
        return findings
    rules = [each for each in all_rules() if each.id in wanted]
    of_all = {each.rule: each for each in run_rules(signals, rules, lambda: NO_REPLAY)}
    return [_beside(each, of_all[each.rule], left) if each.rule in wanted else each for each in findings]


def _beside(finding: Finding, of_all: Finding, left: float) -> Finding:
    """What is left of a finding, that share of it; as the rule says of all hosts together."""
    if of_all.status != FAILED:
        return of_all
    hosts = finding.on_hosts
    if hosts is not None:
        prices = [replace(each, low=each.low * left, high=each.high * left) for each in hosts.prices]
        hosts = replace(hosts, prices=prices)
    ends = finding.title.rfind(" (on ")
    return replace(
        finding,
        title=of_all.title.partition(_OF_HOSTS)[0] + (finding.title[ends:] if ends >= 0 else ""),
        severity=finding.severity * left,
        savings=finding.savings and _cut(finding.savings, left),
        evidence=of_all.evidence,
        on_hosts=hosts,
    )


def _cut(savings: Savings, left: float) -> Savings:
    low, high = savings.low * left, savings.high * left
    shortest, longest = savings.step_low_ms, savings.step_high_ms
    return replace(
        savings,
        low=low,
        high=high,
        step_low_ms=shortest + savings.high - high if shortest is not None else None,
        step_high_ms=longest + savings.low - low if longest is not None else None,
        note=NOTE,
    )
