"""One host is slower than the others, and all wait for it.

## What it detects

In runs of several hosts, one for which the others wait at least a twentieth of the step: at collectives, where all
leave together, the host that waited least came last. Without collectives, hosts' own step times are compared. Also
hosts that come last by turns, where all of them wait for a tenth of the step.

## Why it costs time

Collectives end when the last host has come: every step takes as long as the slowest host's.

## Evidence

How late it comes a step, in how many steps it was last, at which ops, and how long each other host waited there.

## How to fix

[alone] Look at that host: its input files, its CPU load, its network; then replace it. Let each host read its own part
of the data, and not all of it. Under SPMD pass `xs.ShardingSpec(mesh, spec, minibatch=True)` to MpDeviceLoader then:
without it each host's batch is taken for the whole one, and what is not for its own chips is dropped.

[turns] Look at what is unlike from host to host in each step: batches of unlike lengths (sort them by length, or pack
several into one row), garbage collection (call `gc.collect()` on all hosts in the same step), checkpoints and logging
that each host does at its own time. Do them on all hosts in the same step.

## How to fix in JAX

[alone] Look at that host: its input files, its CPU load, its network; then replace it. Let each host read its own part
of the data (`jax.process_index`, `jax.process_count`), and not all of it, and join the parts by
`jax.make_array_from_process_local_data`.

[turns] Look at what is unlike from host to host in each step: batches of unlike lengths (sort them by length, or pack
several into one row), garbage collection (call `gc.collect()` on all hosts in the same step), checkpoints and logging
that each host does at its own time. Do them on all hosts in the same step.

## Limits and false positives

Compared by step times, a host that is merely measured differently (another capture window) looks slow. The price is an
upper bound: without it the next slowest host sets the pace.

## References

- https://github.com/AI-Hypercomputer/ml-goodput-measurement
"""

from __future__ import annotations

from collections import Counter

from tpuprof.report.late_host import waited_by_turns
from tpuprof.report.schema import Evidence, Savings
from tpuprof.report.sections import Hosts, LateStepRow
from tpuprof.rules.base import Outcome, Price, failed, not_applicable, passed, rule
from tpuprof.rules.thresholds import FAILS_FROM_SHARE, STRAGGLER_MIN_HOSTS
from tpuprof.signals import Signals, Unavailable
from tpuprof.units import counted, format_ms

# Late steps listed as evidence (rows).
SHOWN = 5


@rule(
    about="pace of the hosts",
    good="All hosts keep pace",
    bad="One host is slower than the others",
    reads=("step_ms", "host_pace"),
)
def check(signals: Signals) -> Outcome:
    """Fail where one host stands out as late; from which share on is the model's threshold."""
    hosts = signals.host_pace
    if len(hosts.hosts) < STRAGGLER_MIN_HOSTS:
        return not_applicable("the run has one host")
    if hosts.lag_ms_per_step is None:
        raise Unavailable(hosts.clocks)
    last = Counter(row.host for row in hosts.late_steps)
    evidence = [
        Evidence(f"last in {counted(count, 'step')}", count, "steps", host=host)
        for host, count in last.most_common()
    ]
    if not hosts.straggler:
        return _by_turns(hosts, signals.step_ms, evidence) or passed(evidence)
    late = sorted(
        (row for row in hosts.late_steps if row.host == hosts.straggler), key=lambda row: -row.lag_ms
    )
    evidence += [_evidence(row) for row in late[:SHOWN]]
    return failed(
        hosts.lag_ms_per_step / signals.step_ms,
        evidence,
        cases=frozenset({"alone"}),
        title=f"{hosts.straggler} holds the other hosts up by {format_ms(hosts.lag_ms_per_step)} per step",
        price=Price(savings=Savings(0.0, hosts.lag_ms_per_step, "bound")),
    )


def _by_turns(hosts: Hosts, step_ms: float, evidence: list[Evidence]) -> Outcome | None:
    """Where hosts wait at collectives for enough of the step, now for one and now for another."""
    waited = waited_by_turns(hosts) / max(len(hosts.late_steps), 1)
    if waited < FAILS_FROM_SHARE * step_ms:
        return None
    return failed(
        waited / step_ms,
        evidence,
        title=f"Hosts come last by turns, no single one is slow: each waits {format_ms(waited)} per step on average",
        price=Price(savings=Savings(0.0, waited, "bound")),
        cases=frozenset({"turns"}),
    )


def _evidence(row: LateStepRow) -> Evidence:
    waited = ", ".join(f"{host} {format_ms(ms)}" for host, ms in row.waited_ms.items() if ms)
    text = f"late in step {row.step}" + (f" at {row.barrier}" if row.barrier else "")
    return Evidence(text + (f"; waited: {waited}" if waited else ""), row.lag_ms, "ms", row.host, row.step)
