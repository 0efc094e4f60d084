"""Turns a rule's replays into a range of milliseconds per step, or says why that is unknown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

from tpuprof import parts as part
from tpuprof.model.busy_machine import DISTURBED_FROM_SHARE
from tpuprof.model.device.undisturbed import undisturbed_share
from tpuprof.model.host_run import HostRun
from tpuprof.report.schema import Savings
from tpuprof.rules.base import Price
from tpuprof.rules.fed_by_others import MAY_WAIT_INSTEAD, parts_fed_by_others, waits_stay
from tpuprof.rules.later_steps import UNRECORDED, LaterSteps
from tpuprof.rules.programs import TORCH_TPU
from tpuprof.signals import Signals, Unavailable
from tpuprof.simulate.change import Change
from tpuprof.simulate.replay import FIT_WITHIN, Simulator, fit
from tpuprof.simulate.timeline import busiest, read_timeline
from tpuprof.units import format_ms, format_share

COUNTERFACTUAL = "counterfactual"
# How the texts begin that say why there is no price, and why one is a bound.
UNPRICED, NOT_REPLAYED = "it cannot be priced: ", "it cannot be replayed: "
BOUND = "bound"
UNSEEN_DEVICE = (
    "it begins at nothing: the trace has no device plane, so what the device does meanwhile is unknown"
)
# The same where the device is this machine's CPU.
ON_THIS_CPU = (
    "the trace has no device plane; the device is this machine's CPU, whose threads worked for at most "
)
# Where other work had the CPUs: the upper end may be more than this run's device leaves idle. How much faster the
# device computes without it is known; what the host does may take less time as well, as NumPy does.
ON_A_FREE_MACHINE = (
    "other work used the CPUs during the capture; the upper end assumes that without it the device becomes faster, "
    "but the host does not"
)
# The same where the calls that go take CPUs from the device themselves, and so do their programs.
WITHOUT_THE_CALLS = (
    "the device is this machine's CPU; the upper end assumes that it becomes faster "
    "without the CPU time of the calls"
)
# Where host and device take CPUs from each other, and the fix takes out work of one.
BESIDE_IT = "the device is this machine's CPU; the upper end counts all CPU time of the work that goes away"
# Where a fix lets the host work while such a device does: how much of the time of both is saved then is unknown.
SIDE_BY_SIDE = (
    "the device is this machine's CPU; the upper end assumes that host and device are as fast "
    "side by side as alone"
)
# From which ratio of the two ends that is worth saying (ratio): below it both look alike.
NOTED_FROM = 1.05
# What a price leaves out where no trace can tell it: the fix has the device do what the host did.
REPLACEMENT_COSTS = "what the replacement costs on the device is not in it"
# What it leaves out where a line reads in each round of a Python loop, which may become one program.
ROUNDS_NOT_IN_IT = "a loop that becomes one program saves more: the calls of its rounds are not in it"
# What a price says that was cut to its cause, where the replay gave little more.
AT_MOST_THE_CAUSE = "no more than the cause takes: the simulation gave "
# Notes that say how a bound was found, of which steps a price is, or what it is not of, and no doubt.
_NO_DOUBTS = (
    *(ON_THIS_CPU, ON_A_FREE_MACHINE, WITHOUT_THE_CALLS, BESIDE_IT, SIDE_BY_SIDE, UNRECORDED),
    REPLACEMENT_COSTS,
    ROUNDS_NOT_IN_IT,
    AT_MOST_THE_CAUSE,
)
# Below this a saving is a rounding error of the replay's sums (ms): a nanosecond, the smallest unit that is shown.
LEAST_MS = 1e-6

# A replay that gives this much more than the cause takes (ratio) gives more than its own miss: its price is cut to
# what was measured, and says so.
INCONSISTENT_FROM = 1 + FIT_WITHIN
# The same from where it contradicts what was measured, and the price is little sure (ratio). Below it both are measured
# and about the same: a loader's wait took 47 ms, the replay gave 53, and steps without it took 48 ms less. A judgement.
DOUBTED_FROM = 1.2


def bounded(savings: Savings, step_ms: float | None, cause: float | None) -> Savings:
    """Savings that are never negative, never more than the step and never more than the cause takes (share of it).

    A price that had to be cut by more than the replay's miss says so in its note.
    """
    low, high = sorted(each if each >= LEAST_MS else 0.0 for each in (savings.low, savings.high))
    if step_ms is None:
        return replace(savings, low=low, high=high)
    most = step_ms * min(max(1.0 if cause is None else cause, 0.0), 1.0)
    note = savings.note
    # What a start saves is spread over the steps of a short run, and may be more than a step takes: that is no miss.
    if low > most * INCONSISTENT_FROM and savings.per == "step":
        note = f"{AT_MOST_THE_CAUSE}{format_ms(low)}"
        if low > most * DOUBTED_FROM:
            limit = f"limited to the {format_ms(most)} per step that the cause takes"
            note = f"{limit}: the simulation gave {format_ms(low)}"
    return replace(savings, low=min(low, most), high=min(high, most), note=note)


def doubted(savings: Savings) -> bool:
    """Whether a price has a note that makes it doubtful: one that says how a bound was measured does not."""
    return bool(savings.note) and not savings.note.startswith(_NO_DOUBTS)


def measured(savings: Savings | None) -> bool:
    """Whether a price is what was measured of the parts that go, as nothing can be replayed."""
    return savings is not None and savings.method == BOUND and NOT_REPLAYED in savings.note


class Pricing:
    """Prices for one run: one simulator, fitted when first asked for."""

    def __init__(self, signals: Signals, simulator: Callable[[], Simulator | str] | None = None) -> None:
        """`simulator` gives what `simulator_of` does, where that was begun before."""
        self._signals = signals
        self._simulator = simulator or (lambda: simulator_of(signals.hosts))

    @cached_property
    def step_ms(self) -> float | None:
        """Mean measured step time (ms), None where the run has no steps."""
        try:
            return self._signals.step_ms
        except Unavailable:
            return None

    @cached_property
    def usual_step_ms(self) -> float:
        """Mean step that causes beside compiles are judged by (ms), 0 where the run has no steps."""
        try:
            return self._signals.usual_step_ms
        except Unavailable:
            return self.step_ms or 0.0

    @cached_property
    def sees_device(self) -> bool:
        """Whether the trace shows what a device does; a run without steps is taken to."""
        try:
            return self._signals.sees_device
        except Unavailable:
            return True

    @cached_property
    def slowed_by_tools(self) -> bool:
        """Whether a debugging tool was on while the run was captured; one that was not looked for counts as off."""
        try:
            return bool(self._signals.python_tools)
        except Unavailable:
            return False

    @cached_property
    def device_at_most_ms(self) -> float | None:
        """How long a device that the trace does not show worked per step at most (ms); None where nothing tells."""
        try:
            return self._signals.device_at_most_ms
        except Unavailable:
            return None

    @cached_property
    def fed_by_others(self) -> frozenset[str]:
        """The parts in which training waits for queues that others fill; none where that is unknown."""
        try:
            return parts_fed_by_others(self._signals.stacks_if_sampled, self._signals.step_ms)
        except Unavailable:
            return frozenset()

    @cached_property
    def simulator(self) -> Simulator | str:
        """The fitted simulator of the slowest host, or why there is none."""
        return self._simulator()

    def savings(self, price: Price) -> tuple[Savings | None, str]:
        """The range a fix saves, with the price's own note, and an empty text; or None and the reason."""
        savings, unpriced = self._savings(price)
        if savings is None or not price.note:
            return savings, unpriced
        # A doubt stands first: `doubted` looks at how a note begins.
        note = f"{savings.note}; {price.note}" if savings.note else price.note
        return replace(savings, note=note), unpriced

    def _savings(self, price: Price) -> tuple[Savings | None, str]:
        if price.savings is not None:
            return price.savings, ""
        if price.most is None:
            return None, f"{UNPRICED}nothing in the trace tells what the fix would leave"
        simulator = self.simulator
        if isinstance(simulator, str):
            bound = None if price.decides else self._of_measured_parts(price.most, price.hidden, simulator)
            return bound, "" if bound else simulator
        changes = [price.most] if price.least is None else [price.least, price.most]
        gains = [self._gain(simulator, change) for change in changes]
        if not self.sees_device and not all(map(_of_compiles, changes)):
            return self._unseen(gains), ""
        if waits_stay(price.most, self.fed_by_others):
            return Savings(0.0, max(gains) * (1 + simulator.error), COUNTERFACTUAL, note=MAY_WAIT_INSTEAD), ""
        left = self.undisturbed(price)
        free = [
            gain
            for each in changes
            if (gain := self._undisturbed_gain(simulator, each, left, by_the_fix=price.frees_cpus))
            is not None
        ]
        # The replay's own miss widens the range.
        miss = simulator.error
        least = min(min(gains + free) * (1 - miss), price.sure * simulator.measured_ms)
        alone = min(least, price.exposed * simulator.measured_ms)
        most = max(gains) * (1 + miss)
        most += self._behind_waits(simulator, price.most, most)
        ends = {
            WITHOUT_THE_CALLS if price.frees_cpus else ON_A_FREE_MACHINE: max(free, default=0.0) * (1 + miss),
            BESIDE_IT: price.in_all * simulator.measured_ms,
        }
        furthest = max(ends, key=lambda note: ends[note])
        note = SIDE_BY_SIDE if least > alone * NOTED_FROM else ""
        note = furthest if ends[furthest] > most * NOTED_FROM else note
        return Savings(alone, max(most, ends[furthest]), COUNTERFACTUAL, note=note), ""

    @cached_property
    def calm(self) -> float:
        """Share of the computing of a device that is this machine's CPU that is left where all runs are short ones.

        1 for other devices, and where that is unknown.
        """
        try:
            host = _slowest(self._signals.hosts)
        except Unavailable:
            return 1.0
        device = busiest(host.devices) if host is not None else None
        return undisturbed_share(device) if device is not None and device.count == 1 else 1.0

    def undisturbed(self, price: Price) -> float:
        """Share of the device's computing that may be left after a fix as nothing takes CPUs from it; 1 if unknown.

        What takes them is other work on the machine, and what a price says itself (`frees_cpus`).
        """
        try:
            disturbed = self._signals.cpu_wait_share >= DISTURBED_FROM_SHARE
        except Unavailable:
            disturbed = False
        return self.calm if disturbed or price.frees_cpus else 1.0

    @cached_property
    def later(self) -> LaterSteps:
        """The steps after the capture, of the slowest host."""
        try:
            host = _slowest(self._signals.hosts)
        except Unavailable:
            host = None
        return LaterSteps(host)

    @property
    def unrecorded_ms(self) -> float | None:
        """What a step takes after the capture (ms), where captured ones take far longer; None where they do not."""
        return self.later.far_shorter_ms

    def of_captured_steps(self, savings: Savings, of_step: float = 1.0) -> Savings:
        """The savings as far as steps after the capture save as much; `of_step` is `Price.of_step`."""
        return self.later.savings_of(savings, (self.step_ms or 0.0) * of_step)

    def disturbed_share(self, price: Price) -> float:
        """Share of the step by which other work prolongs the device's: host time that it hides may be exposed else.

        0 where steps are left out: what they hold of a device that works through a queue is work of the others.
        """
        left = self.undisturbed(price)
        if (
            (price.most is not None and price.most.steps is not None)
            or left >= 1
            or isinstance(self.simulator, str)
        ):
            return 0.0
        computing = self.simulator.timeline.work.parts.get(part.COMPUTE)
        taken = float(computing.sum()) if computing is not None else 0.0
        return (1 - left) * taken / self.simulator.timeline.wall_ps

    def _undisturbed_gain(
        self, simulator: Simulator, change: Change, left: float, *, by_the_fix: bool = False
    ) -> float | None:
        """What a change of the host gains where nothing takes CPUs from the device (ms).

        `left` is the share of the device's computing that is left then. The gain is the same share of this step.
        `by_the_fix`: what takes the CPUs is what goes, so that the step before the fix is this one.
        """
        if left >= 1 or change.steps is not None or (part.COMPUTE in change.device and not by_the_fix):
            return None
        # What the host does between reads waits for the same CPUs: without other work it takes less too.
        if change.unblock:
            return None
        kept = left * change.device.get(part.COMPUTE, 1.0)
        fixed = replace(change, device={**change.device, part.COMPUTE: kept})
        before = simulator.base_ms if by_the_fix else simulator.step_ms(Change(device={part.COMPUTE: left}))
        gain = max(before - simulator.step_ms(fixed), 0.0)
        return gain / before * simulator.measured_ms if before > 0 else None

    def _unseen(self, gains: list[float]) -> Savings:
        """The range where the trace has no device plane: the device may have been busy all the while.

        Then nothing is saved, unless its threads' own time says for how long it can have been: of a step so much is
        left at most for its sake.
        """
        busy = self.device_at_most_ms
        if busy is None:
            return Savings(0.0, max(gains), BOUND, note=UNSEEN_DEVICE)
        least = min(*gains, max((self.step_ms or 0.0) - busy, 0.0))
        return Savings(least, max(gains), COUNTERFACTUAL, note=f"{ON_THIS_CPU}{format_ms(busy)} of a step")

    def _of_measured_parts(self, change: Change, hidden: float, unpriced: str) -> Savings | None:
        """At most the time of the parts that a change leaves out, where nothing can be replayed; None for others.

        Parts are measured, so that only how much of them is saved is unknown. What the host does behind the device's
        work may be saved beside its own part (`hidden`, share of the step), and a device that is this machine's CPU
        may become faster without either, as without a callback. Where the device waits for the host no longer
        (`let_go`), all that the host does while it idles may run beside it. What else may go on side by side, nothing
        tells.
        """
        if not self.sees_device or change != Change(
            host=change.host, device=change.device, let_go=change.let_go, as_one=change.as_one
        ):
            return None
        try:
            parts = self._signals.steps.mean_parts()
        except Unavailable:
            return None
        gone = {**change.host, **change.device}
        most = sum(parts.get(name, 0.0) * (1 - left) for name, left in gone.items())
        if most and change.let_go:
            most += sum(ms for name, ms in parts.items() if name not in (*part.DEVICE_PARTS, *gone))
        most += hidden * (self.step_ms or 0.0) if most and change.host else 0.0
        if most and (change.host or part.CALLBACK in change.device):
            most += (1 - self.calm) * parts.get(part.COMPUTE, 0.0)
        return Savings(0.0, most, BOUND, note=unpriced.replace(UNPRICED, NOT_REPLAYED)) if most else None

    def _behind_waits(self, simulator: Simulator, change: Change, gain: float) -> float:
        """What a change of the device's work may gain beyond the replay, which keeps waits of an unknown end (ms)."""
        more = simulator.removed_ms(change) - gain if change.device else 0.0
        return min(simulator.unended_ms, more) if more > 0 else 0.0

    def _gain(self, simulator: Simulator, change: Change) -> float:
        return max(simulator.measured_ms - simulator.step_ms(change), 0.0)


def _of_compiles(change: Change) -> bool:
    """Whether a change leaves out compiles alone: programs run in order, so the device waits for them too."""
    return change == Change(host={part.COMPILE: change.host.get(part.COMPILE, 1.0)}, steps=change.steps)


def _slowest(all_hosts: list[HostRun]) -> HostRun | None:
    """The host whose steps take longest, None where no host has any; where some have ops of devices, of those."""
    hosts = [host for host in all_hosts if len(host.steps)]
    if len(hosts) > 1:
        hosts = [host for host in hosts if any(len(each.op_events.op) for each in host.devices)] or hosts
    return max(hosts, key=lambda each: float(each.steps.wall_ps.mean()), default=None)


def simulator_of(all_hosts: list[HostRun]) -> Simulator | str:
    """A simulator fitted to the slowest host, or why there is none.

    Of a TorchTPU capture without a device plane the host alone is replayed: its waits take as long as they did.
    """
    host = _slowest(all_hosts)
    if host is None:
        return f"{UNPRICED}the trace has no steps"
    if not host.devices and host.framework != TORCH_TPU:
        return f"{UNPRICED}the trace has no device activity"
    simulator = fit(read_timeline(host.steps, host.devices, host.activity, host.named_events))
    if simulator.error > FIT_WITHIN:
        return (
            f"{UNPRICED}the replay gives {format_ms(simulator.base_ms)} per step where "
            f"{format_ms(simulator.measured_ms)} were measured, {format_share(simulator.error)} off"
        )
    return simulator
