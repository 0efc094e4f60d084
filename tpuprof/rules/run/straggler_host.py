"""One host is slower than the others, and all wait for it.

## What it detects

In runs of several hosts, one whose own work (the step less its wait for communication) takes longer than the median
host's by at least a twentieth of the step.

## Why it costs time

Collectives end when the last host has come: every step takes as long as the slowest host's.

## Evidence

Own work a step of each host.

## How to fix

Look at that host: its input files, its CPU load, its network; then replace it.

Before:

    # all hosts read the same remote files

After:

    # each host reads its own shard, from a local disk

## Limits and false positives

Each host's trace is on its own clock, so hosts are compared by means, not step by step.

## References

- https://github.com/AI-Hypercomputer/ml-goodput-measurement
"""

from __future__ import annotations

import statistics

from tpuprof.model import attribution as part
from tpuprof.report.schema import Evidence, Savings
from tpuprof.rules.base import Outcome, Price, failed, not_applicable, passed, rule
from tpuprof.rules.thresholds import STRAGGLER_FROM_SHARE, STRAGGLER_MIN_HOSTS
from tpuprof.signals import Signals


@rule(good="All hosts keep pace", bad="One host is slower than the others")
def check(signals: Signals) -> Outcome:
    """Fail where the slowest host's own work exceeds the median host's by enough of the step."""
    own: dict[str, list[float]] = {}
    for row in signals.steps:
        own.setdefault(row.host, []).append(row.wall_ms - row.breakdown_ms.get(part.COLLECTIVE, 0.0))
    if len(own) < STRAGGLER_MIN_HOSTS:
        return not_applicable("the run has one host")
    means = {host: statistics.fmean(values) for host, values in own.items()}
    slowest = max(means, key=lambda host: means[host])
    # Against the others, the slowest left out: of two hosts the median would lie halfway to it.
    excess = means[slowest] - statistics.median(ms for host, ms in means.items() if host != slowest)
    share = excess / signals.step_ms
    evidence = [Evidence("own work a step", ms, "ms", host=host) for host, ms in means.items()]
    if share < STRAGGLER_FROM_SHARE:
        return passed(evidence)
    price = Price(savings=Savings(0.0, excess, "bound"))
    return failed(share, evidence, title=f"{slowest} is slower than the other hosts", price=price)
