"""What reads that run graphs of their own cost at most: one limit for the verdict and for the price."""

from __future__ import annotations

# What reads that run graphs save at most on a device that is this machine's CPU, over what they block (ratio). The host
# traces more slowly right after a read, as the device's threads had the CPUs and their caches: with 20 reads of tiny
# graphs per step a backward pass took 2.1 ms, without them 0.6. Captured steps of 15.9 ms, blocked for 8.5, were 3.6 ms
# without the reads; other programs gained 0.8 to 1.4 times what was blocked (torch_xla 2.9, 2 CPUs).
BESIDE_READS = 1.45


def reads_cost_at_most(idle: float, again: float, blocked: float, *, on_cpu: bool) -> float:
    """What a step is shorter without such reads at most, in the unit of the times given.

    The device idles for `idle` and computes for `again` what the step computes as well. The host goes on earlier by
    what the reads block, which holds the run of their graphs: `again` is no time beside it. `on_cpu`: the device is
    this machine's CPU.
    """
    beside = BESIDE_READS if on_cpu else 1.0
    return max(min(idle + again, beside * blocked), again)
