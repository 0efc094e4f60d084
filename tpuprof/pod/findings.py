"""What rules found on many hosts: each rule once, with how many hosts it failed on."""

from __future__ import annotations

from dataclasses import replace

from tpuprof.model.run import Run
from tpuprof.pod.digest import FAILED, Digest
from tpuprof.pod.late_waits import without_late_waits
from tpuprof.report.labels import main_places
from tpuprof.report.pod import FindingHosts, HostPriceRow, LineHostsRow, RuleHostsRow
from tpuprof.report.schema import Finding, Report
from tpuprof.rules.pricing import COUNTERFACTUAL, doubted
from tpuprof.rules.registry import all_rules
from tpuprof.rules.runner import ranked, run_rules
from tpuprof.signals import Signals

# The rule that compares hosts: it is asked of all of them together.
ACROSS_HOSTS = "straggler-host"
# Hosts named of a rule, or of one of its lines (rows): all where they are the few that one has to look at.
NAMED = 32
# Lines named of a rule (rows).
LINES = 16


def rule_rows(digests: list[Digest]) -> list[RuleHostsRow]:
    """Every rule that failed on a host, the one that failed on most first."""
    rows = [
        RuleHostsRow(rule, len(found), [name for name, _ in found][:NAMED])
        for rule, found in _failed(digests).items()
    ]
    return sorted(rows, key=lambda row: (-row.hosts, row.rule))


def _failed(digests: list[Digest]) -> dict[str, list[tuple[str, Finding]]]:
    """By rule the hosts on which it failed, with what it says of them."""
    found: dict[str, list[tuple[str, Finding]]] = {}
    for each in digests:
        for finding in each.failed:
            found.setdefault(finding.rule, []).append((each.name, finding))
    return found


def merged_findings(report: Report, run: Run, digests: list[Digest], shown: int) -> list[Finding]:
    """What each rule says of the host that is shown; where it failed on others alone, of the worst of them."""
    failed = _failed(digests)
    found = []
    for each in report.findings:
        if each.rule == ACROSS_HOSTS:
            continue
        hosts = failed.get(each.rule)
        found.append(_of_hosts(hosts, digests, digests[shown].name) if hosts else each)
    found = [*without_late_waits(found, report, run), *_across(report, run)]
    return _ranked(found)


def _ranked(findings: list[Finding]) -> list[Finding]:
    """The findings in the order that one host's have, each counted by the share of hosts that it is of."""
    counted = [replace(each, severity=each.severity * _weight(each)) for each in findings]
    priced = {
        each.rule: each.savings for each in findings if each.status == FAILED and each.savings is not None
    }
    replayed = {rule for rule, savings in priced.items() if savings.method == COUNTERFACTUAL}
    # Of a doubtful price, the finding no longer says whether its cause is doubtful too: mostly it is not.
    sure = {rule for rule, savings in priced.items() if doubted(savings)}
    row = {each.rule: at for at, each in enumerate(ranked(counted, list(all_rules()), replayed, sure))}
    return sorted(findings, key=lambda each: row[each.rule])


def _weight(finding: Finding) -> float:
    """The share of hosts that a finding is of; 1 of what is found between hosts."""
    return finding.on_hosts.hosts / finding.on_hosts.of if finding.on_hosts else 1.0


def _of_hosts(failed: list[tuple[str, Finding]], digests: list[Digest], shown: str) -> Finding:
    """One rule's finding on many hosts: as on the host that is shown, where it failed there."""
    worst = min(failed, key=lambda each: (-each[1].severity, each[0]))
    name, finding = next((each for each in failed if each[0] == shown), worst)
    rule, names = finding.rule, [each for each, _ in failed]
    others = [each.name for each in digests if each.name not in set(names)]
    title = f"{finding.title} ({_on(len(failed), len(digests))})"
    told = FindingHosts(
        hosts=len(failed),
        of=len(digests),
        names=names[:NAMED],
        shown=name,
        others=others[:NAMED] if len(others) < len(failed) else [],
        undecided=sum(rule in each.undecided for each in digests),
        lines=_lines(failed),
        prices=_prices(failed),
    )
    return replace(finding, title=title, on_hosts=told)


def _on(hosts: int, of: int) -> str:
    if of == 1:
        return "on the one host"
    return f"on all {of:,} hosts" if hosts == of else f"on {hosts:,} of {of:,} hosts"


def _lines(failed: list[tuple[str, Finding]]) -> list[LineHostsRow]:
    """The first line that each host's evidence names, those of most hosts first; none where no host names one."""
    hosts: dict[str, list[str]] = {}
    for name, finding in failed:
        source = next(iter(main_places(finding)), "")
        hosts.setdefault(source, []).append(name)
    if set(hosts) == {""}:
        return []
    rows = [LineHostsRow(source, len(names), names[:NAMED]) for source, names in hosts.items()]
    return sorted(rows, key=lambda row: (-row.hosts, row.source))[:LINES]


def _prices(failed: list[tuple[str, Finding]]) -> list[HostPriceRow]:
    """What the hosts save that save least, the middle and most: each as it stands in that host's own finding."""
    rows = [
        HostPriceRow(name, each.low, each.high, each.method, each.per, each.start_low_s, each.start_high_s)
        for name, finding in failed
        if (each := finding.savings) is not None
    ]
    rows.sort(key=lambda row: (row.high, row.low, row.host))
    return [rows[at] for at in sorted({0, (len(rows) - 1) // 2, len(rows) - 1})] if rows else []


def _across(report: Report, run: Run) -> list[Finding]:
    """The rule that compares hosts."""
    rules = [rule for rule in all_rules() if rule.id == ACROSS_HOSTS]
    return run_rules(Signals(report, run), rules)
