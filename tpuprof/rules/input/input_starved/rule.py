"""The device waits for the next batch.

## What it detects

Typical steps in which the training thread waits for its data loader, or copies a batch to the device, while the
device idles. Where it waits for batches nearly all the time, all steps count: the device may have work in most.

## Why it costs time

A batch made while the device waits adds its whole time to the step; made ahead, it costs nothing.

## Evidence

Time per step waiting for batches, copying them to the device, and in infeed, as a mean over all captured steps; how
long a batch takes to make, and whether it is made ahead; how much of the copies is of an array that was copied
before; and in JAX the jitted function whose arguments most of them are.

## How to fix

[again] Copy what does not change to the device once, before the loop.

[back] A step also copies tensors to the host. Where what is computed of them there goes back to the device, compute it
in torch ops: neither copy is needed then.

[batches] Make batches ahead: worker processes in the DataLoader (num_workers, persistent_workers=True), and
MpDeviceLoader, whose threads copy them to the device meanwhile. MpDeviceLoader cuts the graph itself whenever it
hands over a batch, so leave out `torch_xla.sync()`: with both there are two cuts per step. Under SPMD pass
`input_sharding=xs.ShardingSpec(mesh, spec)`, so that each batch goes to the devices in parts, and not whole to
each. Where one worker or thread makes them already, it is too slow: let several do so, or give each less to do.

[workers] Worker processes make the batches already, and training waits for them. Where CPUs are free, start more
(num_workers). Else give them less to do: keep what was decoded or tokenized, or leave a transform to the device. Where
batches come in bursts, raise prefetch_factor.

[restarts] The DataLoader ends its worker processes after each epoch and starts new ones, and training waits for both.
Keep them: pass `persistent_workers=True`. Where each epoch makes a loader of its own, make it once.

## How to fix in TorchTPU

[again] Copy what does not change to the device once, before the loop.

[back] A step also copies tensors to the host. Where what is computed of them there goes back to the device, compute it
in torch ops: neither copy is needed then.

[batches] Make batches ahead: worker processes in the DataLoader (num_workers, persistent_workers=True,
prefetch_factor), and copy the next batch with `.to("tpu", non_blocking=True)` before the step that needs it. On a
device this was not tried. Where one worker or thread makes them already, it is too slow: let several do so.

[workers] Worker processes make the batches already, and training waits for them. Where CPUs are free, start more
(num_workers). Else give them less to do: keep what was decoded or tokenized, or leave a transform to the device.

[restarts] The DataLoader ends its worker processes after each epoch and starts new ones, and training waits for both.
Keep them: pass `persistent_workers=True`. Where each epoch makes a loader of its own, make it once.

## How to fix in JAX

[again] Copy what does not change to the device once, before the loop: `jax.device_put` outside it.

[back] A step also copies arrays to the host. Where what is computed of them there goes back to the device, compute it
with `jax.numpy` inside the jitted step: neither copy is needed then.

[arguments] A jitted function copies each NumPy array that it is given to the device in each call. Put what does not
change (a data set, a table, a mask) there once, by `jax.device_put` before the loop, and take a batch's rows from it
inside the function. Put a batch there one step early: call `jax.device_put` for the next one before you wait for this
step.

[batches] Make batches ahead in threads or processes (Grain, a DataLoader, or a thread of your own that runs your
generator and fills a queue), and put them on the devices one step early: call `jax.device_put` with the batch's
sharding for the next batch before you wait for this step. `jax.make_array_from_process_local_data` lets each host
load only its part. Start worker processes by "spawn" or "forkserver" (`multiprocessing_context` of a DataLoader):
JAX has threads, and a forked copy of its process may hang. Where one worker or thread makes them already, it is too
slow: let several do so.

[workers] Worker processes make the batches already, and training waits for them. Where CPUs are free, start more
(num_workers). Else give them less to do: keep what was decoded or tokenized, or leave a transform to the device.

[restarts] The DataLoader ends its worker processes after each epoch and starts new ones, and training waits for both.
Keep them: pass `persistent_workers=True`. Where each epoch makes a loader of its own, make it once.

## Limits and false positives

The price assumes that batches are then always ready. Copies of other data may take as long wherever they are made,
so the price begins without them; those of an array that `jax.device_put`, `Tensor.to` or `Tensor.xla` copied before
it counts whole. Of NumPy's arrays 256 numbers tell whether one is still the same. A loader that is too slow even
when it runs all the time limits the step to its own rate: more workers, or a cheaper transform. Where worker processes
start again, the price has the share of such steps that the capture holds: of long epochs it may hold too many or none.
Where each batch is late, waits are judged by what compiles leave of the steps: these have findings of their own.

A device that is this machine's CPU gets a large array in a thread of its own, after the call has returned: that takes a
CPU from the host and holds the program back. The upper end counts all of that time. Of 61 MB per step 23 ms were waited
for, and without the copy a step took 61 ms less.

## References

- https://docs.pytorch.org/xla/release/r2.9/perf/spmd_advanced.html
- https://github.com/pytorch/xla/issues/2699
"""

from __future__ import annotations

from dataclasses import replace

from tpuprof import parts as part
from tpuprof.model.verdict_words import READS_IN_STEPS_SHARE
from tpuprof.report.host_lines import SEEN_FROM_SHARE, Where, line_calling, lines_of, lines_told, where_of
from tpuprof.report.schema import Evidence
from tpuprof.report.sections import InputRow
from tpuprof.rules.base import STABLE, Outcome, counterfactual, failed, passed, rule
from tpuprof.rules.shared.read_cases import ARRAYS
from tpuprof.rules.shared.step_shares import of_each_step
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import format_ms

# What each diagnosis of the input pipeline means, as evidence.
DIAGNOSES = {
    "no_prefetch": "batches are made in the training thread, none ahead",
    "slow_workers": "worker processes make the batches, slower than training uses them",
    "restarted_workers": "worker processes make the batches, and new ones start in the captured steps",
    "slow_loader": "making a batch takes longer than training on it",
    "shallow_prefetch": "batches are made fast enough, but too few ahead",
    "unseen": "a thread makes batches ahead, and the capture saw none made: whether that is too slow is unknown",
    "ok": "training hardly waits for batches",
}
# Share of the waits, or of the copies' time, from which copies of the same array are named, and are most of it. A
# judgement.
AGAIN_FROM_SHARE = 0.5
# Diagnoses under which each batch is late, also where a queue hides it in most steps and some wait for all.
_LASTING = ("no_prefetch", "slow_workers", "restarted_workers", "slow_loader")
# The advice for each diagnosis; for others it is on making batches ahead.
_ADVICE = {"slow_workers": "workers", "restarted_workers": "restarts"}
# Share of a step in which the training thread waits for a batch, whether or not the device works meanwhile, from which
# its batches are the pace of training: it does nothing else, so a queue is empty whenever it asks. A judgement.
PACED_FROM_SHARE = 0.75
# How much longer the runtime copies than training is seen to wait for it from which all of that may be saved (ratio):
# below it the rest is the begin of a copy, which the call itself makes. A judgement.
BESIDE_FROM = 1.2
# Lines listed as evidence (rows).
SHOWN = 3
PARTS = (part.INPUT_WAIT, part.HOST_TO_DEVICE, part.HOST_IO)


@rule(
    status=STABLE,
    about="waits for input",
    good="The device hardly waits for data",
    bad="The device waits for the next batch",
    reads=(
        "step_ms",
        "uncompiled_ms",
        "steps",
        "typical_parts",
        "typical_ms",
        "falls_back",
        "copied_again",
        "copied_for",
        "copied_at",
        "copying_ms",
        "device_type",
        "python_reads_if_seen",
        "stacks_if_sampled",
        "input_pipelines",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where waiting for input takes enough of a typical step."""
    waits, share, fails = _waits(signals)
    evidence = [Evidence(f"{name} per step", ms, "ms") for name, ms in waits.items() if ms]
    largest = max(waits, key=lambda name: waits[name])
    lines = lines_told(signals.stacks_if_sampled, largest)
    where = where_of(signals.stacks_if_sampled, largest)
    if where is not None and where.ms < SEEN_FROM_SHARE * waits[largest]:
        # Samples cover a small part of it: what they saw may be what came after.
        where, lines = None, []
    evidence += [_pipeline(row) for row in signals.input_pipelines]
    evidence += [
        Evidence(f"waited at{each.doing}", each.ms, "ms per step", source=each.source)
        for each in lines[:SHOWN]
        if each.ms
    ]
    if not fails:
        reason = "ops without a lowering copy to the device: see aten-fallback" if signals.falls_back else ""
        return passed(evidence, reason=reason if waits.get(part.HOST_TO_DEVICE) else "")
    again = signals.copied_again if waits.get(part.HOST_TO_DEVICE) else 0.0
    if again >= AGAIN_FROM_SHARE:
        evidence.append(
            Evidence("of the copies' time copies an array that was copied before", again, "share")
        )
    given = signals.copied_for if largest == part.HOST_TO_DEVICE and again < AGAIN_FROM_SHARE else ""
    data = f"NumPy's arrays that {given} is given" if given else "data"
    called = line_calling(signals.stacks_if_sampled, given) if given and where is None else ""
    if called:
        evidence.append(Evidence(f"calls {given}", source=called))
    at = f" at {called}" if called else _at(where, given)
    if where is None and largest == part.HOST_TO_DEVICE and signals.copied_at and not given:
        at = f", copied at {signals.copied_at}"
        evidence.append(Evidence("copied at", waits[largest], "ms per step", source=signals.copied_at))
    gone = dict.fromkeys(_of_input(signals) - {part.HOST_IO}, 0.0)
    price = counterfactual(
        Change(host=gone, device={part.HOST_IO: 0.0}),
        # What is copied again need not be copied at all; another copy may take as long wherever it is made.
        Change(host={part.INPUT_WAIT: 0.0, part.HOST_TO_DEVICE: 1 - again}),
        # Compiles that take nearly all of a step do not make what waits take of the rest a little thing.
        judged_of=signals.uncompiled_ms / signals.step_ms,
    )
    if largest == part.HOST_TO_DEVICE and signals.device_type == "CPU":
        copying = min(signals.copying_ms, signals.step_ms)
        if copying >= BESIDE_FROM * waits[largest]:
            price = replace(price, in_all=copying / signals.step_ms)
            evidence.append(Evidence("copies, also in threads of the runtime", copying, "ms per step"))
    return failed(
        share,
        evidence,
        title=f"The device waits {of_each_step(signals, share * signals.step_ms)} for {data}{at}",
        price=price,
        cases=_goes_back(signals, largest)
        | (frozenset({"arguments"}) if given else _cases(waits, again, signals.input_pipelines)),
    )


def _at(where: Where | None, given: str) -> str:
    """The line that waits, as the end of the title. Of arrays that a function is given it need not be that call."""
    if where is None:
        return ""
    elsewhere = given and f"{given}(" not in where.text
    return f"; the host waits for them at {where.text}" if elsewhere else f", at {where.text}"


def _cases(waits: dict[str, float], again: float, rows: list[InputRow]) -> frozenset[str]:
    """Whether copies of the same array are most of it, or batches are, and who makes those: each has its own advice."""
    whole = sum(waits.values())
    same = waits.get(part.HOST_TO_DEVICE, 0.0) * again
    found = {"again"} if same >= AGAIN_FROM_SHARE * whole else set()
    if same <= (1 - AGAIN_FROM_SHARE) * whole:
        found |= {_ADVICE[row.diagnosis] for row in rows if row.diagnosis in _ADVICE} or {"batches"}
    return frozenset(found)


def _goes_back(signals: Signals, largest: str) -> frozenset[str]:
    """Whether what is copied to the device may be computed of arrays that most steps copy to the host."""
    often = READS_IN_STEPS_SHARE * len(signals.steps)
    reads = (row for row in signals.python_reads_if_seen if row.call in ARRAYS)
    return frozenset(
        {"back"} if largest == part.HOST_TO_DEVICE and sum(row.occurrences for row in reads) >= often else ()
    )


def _of_input(signals: Signals) -> set[str]:
    """Parts that wait for input: copies to the device may be results of ops that fall back, where some do."""
    return set(PARTS) - ({part.HOST_TO_DEVICE} if signals.falls_back else set())


def _waits(signals: Signals) -> tuple[dict[str, float], float, bool]:
    """Waits per step (ms), the share of those for input in all steps' time, and whether that is a fault.

    Where not each batch is late, it is one if typical steps wait long and all steps together do; the waits of a run
    that is well are those of typical steps.
    """
    typical, mean, counted = signals.typical_parts, signals.steps.mean_parts(), _of_input(signals)
    waits = {name: mean.get(name, 0.0) for name in PARTS}
    share = sum(waits[name] for name in counted) / signals.step_ms
    if _is_paced(signals) or any(row.diagnosis in _LASTING for row in signals.input_pipelines):
        return waits, share, share * signals.step_ms >= FAILS_FROM_SHARE * signals.uncompiled_ms > 0
    usual = {name: typical.get(name, 0.0) for name in PARTS}
    of_usual = sum(usual[name] for name in counted) / signals.typical_ms
    fails = min(of_usual, share) >= FAILS_FROM_SHARE
    return (waits if fails else usual), share, fails


def _is_paced(signals: Signals) -> bool:
    """Whether training waits for batches nearly all the time: each is late, also where the device works meanwhile."""
    lines = lines_of(signals.stacks_if_sampled, part.INPUT_WAIT)
    return sum(exposed + hidden for *_, exposed, hidden in lines) >= PACED_FROM_SHARE * signals.step_ms


def _pipeline(row: InputRow) -> Evidence:
    told = DIAGNOSES.get(row.diagnosis, row.diagnosis)
    if row.batch_ms is not None:
        told += f"; a batch takes {format_ms(row.batch_ms)}"
    return Evidence(told, row.wait_ms_per_step, "ms per step waited, the device busy or idle", host=row.host)
