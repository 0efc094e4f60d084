"""What the host was doing at each moment, read from its training thread and the threads that serve it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

import numpy as np
import numpy.typing as npt

from tpuprof.decode.columns import Plane
from tpuprof.model.device.cpu import own_programs
from tpuprof.model.host.annotations import Annotations, annotations_of
from tpuprof.model.host.array_waits import waits_for_arrays, with_whole_reads
from tpuprof.model.host.aten_fallbacks import aten_fallbacks, with_fallbacks
from tpuprof.model.host.blocking_waits import (
    long_ends,
    number_reads,
    reading_values,
    waits_alone,
    waits_by_reason,
)
from tpuprof.model.host.driver import autograd_threads
from tpuprof.model.host.interval_pieces import GIL
from tpuprof.model.host.loaders import loading
from tpuprof.model.host.python_calls import python_calls
from tpuprof.model.host.recorded import recorded_of
from tpuprof.model.host.sample_events import times_of
from tpuprof.model.host.samples import HostSamples, read_samples, refine
from tpuprof.model.host.stacks import COMPILING
from tpuprof.model.host.vocabulary import Activity, Vocabulary
from tpuprof.model.intervals import (
    EMPTY,
    Int64,
    Segments,
    Spans,
    flatten,
    inherit,
    intersect,
    merge,
    subtract,
    union,
)
from tpuprof.model.timeline import Host, Track, by_plane
from tpuprof.own_events import GRAPH_CUT, PREFIX
from tpuprof.parts import HOST_PREFIX
from tpuprof.records import record
from tpuprof.units import PS_PER_MS

# Number of ops the framework traced inside an annotation; tpuprof.annotate writes it when it leaves.
TRACED_OPS_STAT = "traced_ops"
# Ops per millisecond below which an annotation did something else than trace. Building a graph traces tens
# of ops a millisecond (measured: a decoder's forward pass, PJRT_DEVICE=CPU); loading a batch and moving it
# to the device traces a few in all.
TRACING_FROM_OPS_PER_MS = 0.2
# Eager dispatch: a pause between two ops up to which the training thread is taken to be on its way to the next op (ps).
# Of the pauses in real TorchTPU captures (torch_tpu 0.2 on a CPU) nine in ten are below 0.15 ms; code that dispatches
# nothing, such as a profiler's own work or a sleep, makes pauses of more than a millisecond.
EAGER_PAUSE_PS = 300_000_000
# What a training loop does, and a data pipeline does not.
_TRAINS = (Activity.COMPILE, Activity.TRACING, Activity.DISPATCH)


@record(frozen=True)
class HostActivity:
    """Host time by activity.

    `driver` names the training thread, None where none was found. `by_activity` spans are of that thread alone
    and do not overlap; `compiling` and `dispatching` are of any thread, `dispatching_elsewhere` is of all others.
    `user` spans are named and also part of USER. `calling` is in events of ops, None where ops have none.
    """

    framework: str
    residual: Activity
    driver: str | None
    by_activity: dict[Activity, Spans]
    user: dict[str, Spans]
    compiling: Spans
    dispatching: Spans
    annotations: Annotations
    # Host time that samples name, by part (`host:sleep`); also part of HOST_NAMED.
    named: dict[str, Spans] = field(default_factory=dict)
    samples: HostSamples | None = None
    # Time in which the training thread itself runs the device's ops; it spends it otherwise by `by_activity`.
    running: Spans = EMPTY
    # When it waited for Python's lock at the end of a wait for the device.
    held_in_waits: Spans = EMPTY
    dispatching_elsewhere: Spans = EMPTY
    # When it was in reads of values that the program asks for: tracing in them is there for the reads alone.
    reading: Spans = EMPTY
    calling: Spans | None = None

    def spans(self, activity: Activity) -> Spans:
        """When the training thread was at that activity."""
        return self.by_activity.get(activity, EMPTY)


def read_host(
    host: Host,
    vocabulary: Vocabulary,
    driver: Track | None,
    *,
    all_lowered: bool = False,
    computed: Spans = EMPTY,
) -> HostActivity:
    """Classify a host's time by its training thread, `driver`.

    Time that no event explains goes by the samples of that thread's stack. Without samples it is tracing under an
    annotation in which many ops were traced, and the vocabulary's residual elsewhere. An annotation in which next to
    no op was traced goes by its own name. `all_lowered` says that counters show no op that ran on the CPU: transfers
    that the program did not ask for are then reads of values, and fetch no inputs. In `computed` ops run on the host.
    """
    by_activity: dict[Activity, Spans] = {}
    user, named = dict[str, Spans](), dict[str, Spans]()
    samples = calling = None
    autograd = autograd_threads(host)
    codes = by_plane(host.threads, lambda plane: _codes(plane, vocabulary))
    rest = [each for each in host.threads if each is not driver]
    if driver is not None:
        by_activity, user = _classify(driver, vocabulary)
        if vocabulary.eager or vocabulary.residual == Activity.HOST_OTHER:
            # Between its events the thread runs Python, too: only captures by tpuprof have an event around a step.
            outside = recorded_of(host).outside_events(driver)
            by_activity[Activity.UNKNOWN] = merge(by_activity[Activity.UNKNOWN], outside)
        calls_are_events = vocabulary.building is Activity.DISPATCH
        on_host = _ops_on_host(by_activity, driver, vocabulary, rest, codes, computed)
        calling = by_activity[Activity.DISPATCH] if vocabulary.eager else None
        # What a loader calls is the loader's, ops and all: its lines count as they are seen. So do those in annotations
        # and garbage collections, which are no calls of the framework.
        own = merge(by_activity[Activity.UNKNOWN], by_activity[Activity.INPUT_WAIT], *user.values())
        jax = vocabulary.framework == "jax"
        samples = read_samples(host, own if calls_are_events else None, driver, torch_computes=jax)
        samples = with_whole_reads(samples) if jax else samples
        if len(on_host.start):
            from tpuprof.model.host.ops_on_host import computing

            samples = computing(samples, on_host)
        read_there = _on_threads(autograd, codes, Activity.DEVICE_TO_HOST_SYNC)
        named, samples = _explain(by_activity, driver, samples, vocabulary, autograd, read_there)
        _waiting(by_activity, driver)
        if not all_lowered:
            # The training thread waits in `backward()` while autograd's thread runs an op that falls back.
            fallbacks = [aten_fallbacks(each, vocabulary, None) for each in autograd]
            fallbacks.append(aten_fallbacks(driver, vocabulary, samples))
            by_activity, named = with_fallbacks(by_activity, named, merge(*fallbacks))
    return HostActivity(
        framework=vocabulary.framework,
        residual=vocabulary.residual,
        driver=driver.label if driver is not None else None,
        by_activity=by_activity,
        user=user,
        compiling=_on_threads(host.threads, codes, Activity.COMPILE),
        dispatching=_on_threads(host.threads, codes, Activity.DISPATCH),
        annotations=annotations_of([driver, *autograd] if driver is not None else autograd),
        named=named,
        samples=samples,
        running=own_programs(driver) if driver is not None else EMPTY,
        dispatching_elsewhere=_on_threads(rest, codes, Activity.DISPATCH),
        reading=reading_values(driver) if driver is not None else EMPTY,
        calling=calling,
    )


def with_lock_after_waits(
    activity: HostActivity, driver: Track | None, devices: Sequence[Spans]
) -> HostActivity:
    """The same with time in waits for the device that is a wait for Python's lock: the device is done by then.

    `devices` is when each device works. A call that waits and reads nothing (`block_until_ready`) ends as soon as the
    device is done and the thread has the lock again. In JAX so does a read of one number, but for
    its copy. Where no device is seen nothing tells one from the other.
    """
    if driver is None or activity.samples is None or not devices:
        return activity
    reading, waits = activity.spans(Activity.DEVICE_TO_HOST_SYNC), activity.samples.spans(GIL)
    waits = intersect(reading, subtract(waits, merge(*devices)))
    held = intersect(waits_alone(driver), waits)
    if activity.framework == "jax":
        held = merge(held, long_ends(intersect(number_reads(driver), waits)))
    if not len(held.start):
        return activity
    by_activity, name = activity.by_activity, HOST_PREFIX + GIL
    return replace(
        activity,
        by_activity={
            **by_activity,
            Activity.DEVICE_TO_HOST_SYNC: subtract(by_activity[Activity.DEVICE_TO_HOST_SYNC], held),
            Activity.HOST_NAMED: merge(by_activity[Activity.HOST_NAMED], held),
        },
        named={**activity.named, name: merge(activity.named.get(name, EMPTY), held)},
        held_in_waits=held,
    )


def _waiting(by_activity: dict[Activity, Spans], driver: Track) -> None:
    """Count waits that the program asked for as reads, others as waits for the device; neither is tracing."""
    asked, locked = waits_by_reason(driver)
    by_activity[Activity.TRACING] = subtract(by_activity[Activity.TRACING], merge(asked, locked))
    reads = merge(by_activity[Activity.DEVICE_TO_HOST_SYNC], asked)
    by_activity[Activity.DEVICE_TO_HOST_SYNC] = reads
    by_activity[Activity.DEVICE_WAIT] = merge(by_activity[Activity.DEVICE_WAIT], locked)


def _ops_on_host(
    by_activity: dict[Activity, Spans],
    driver: Track,
    vocabulary: Vocabulary,
    rest: list[Track],
    codes: dict[int, Int64],
    computed: Spans,
) -> Spans:
    """Ops that the training thread computes itself are no dispatch: samples tell their lines. When it does so."""
    if not vocabulary.eager:
        return EMPTY
    from tpuprof.model.host.ops_on_host import ops_on_host

    kinds = (Activity.DISPATCH, Activity.COMPILE, Activity.HOST_TO_DEVICE)
    calls = by_activity[Activity.DISPATCH]
    on_host = ops_on_host(driver, lambda: merge(*(_on_threads(rest, codes, each) for each in kinds)), calls)
    on_host = merge(on_host, computed)
    by_activity[Activity.DISPATCH] = subtract(calls, on_host)
    by_activity[Activity.UNKNOWN] = merge(by_activity[Activity.UNKNOWN], intersect(calls, on_host))
    return on_host


def _codes(plane: Plane, vocabulary: Vocabulary) -> Int64:
    """`Activity` of each of a plane's names; the last one is of events without a name."""
    return np.append(vocabulary.codes(plane.events.names), int(Activity.UNKNOWN))


def _classify(driver: Track, vocabulary: Vocabulary) -> tuple[dict[Activity, Spans], dict[str, Spans]]:
    activity = _codes(driver.plane, vocabulary)[driver.name_row]
    user_name = _user_names(driver, activity, vocabulary)
    activity[user_name >= 0] = Activity.USER
    saving = activity == Activity.CHECKPOINT
    activity[saving | (activity == Activity.GC)] = Activity.USER
    # What these hold may count as them, under their name.
    label = np.where(activity == Activity.USER, np.maximum(user_name, driver.name_row), -1)
    activity = _covered(driver, activity, vocabulary, saving)
    resolved = inherit(activity, driver.parent, int(Activity.UNKNOWN))
    # A loader that cuts the graph (MpDeviceLoader) waits for no batch meanwhile.
    cut = driver.named(GRAPH_CUT)
    resolved[cut[resolved[cut] == Activity.INPUT_WAIT]] = Activity.UNKNOWN
    segments = flatten(driver.start, driver.end, driver.parent)
    by_activity = {each: _segments_of(segments, resolved, each) for each in Activity}
    return by_activity, _user_spans(driver, segments, resolved, label)


def _explain(
    by_activity: dict[Activity, Spans],
    driver: Track,
    samples: HostSamples | None,
    vocabulary: Vocabulary,
    autograd: list[Track],
    read_there: Spans,
) -> tuple[dict[str, Spans], HostSamples | None]:
    """Give the driver's time without events to what it did.

    Returns what samples name, by part, and the samples: where there are none, a tracer's Python functions.
    """
    residual = vocabulary.residual
    unknown = by_activity.pop(Activity.UNKNOWN)
    # Gradient hooks and custom backwards read on autograd's thread, while the training thread waits.
    reading = intersect(unknown, read_there)
    unknown = subtract(unknown, reading)
    by_activity[Activity.DEVICE_TO_HOST_SYNC] = merge(by_activity[Activity.DEVICE_TO_HOST_SYNC], reading)
    training = merge(*(by_activity.get(each, EMPTY) for each in _TRAINS))
    loaded = intersect(subtract(unknown, times_of(driver, GRAPH_CUT)), loading(samples, training))
    by_activity[Activity.INPUT_WAIT] = merge(by_activity[Activity.INPUT_WAIT], loaded)
    building, kinds, rest = refine(samples, subtract(unknown, loaded))
    if vocabulary.framework == "jax" and "wait" in kinds:
        arrays = intersect(kinds["wait"], waits_for_arrays(samples))
        kinds["wait"] = subtract(kinds["wait"], arrays)
        by_activity[Activity.DEVICE_TO_HOST_SYNC] = merge(by_activity[Activity.DEVICE_TO_HOST_SYNC], arrays)
    making = kinds.pop(COMPILING, EMPTY)
    by_activity[Activity.COMPILE] = merge(by_activity[Activity.COMPILE], making)
    shown = [_counted_tracing(driver)] if residual == Activity.HOST_OTHER else []
    # The training thread waits in `backward()`, without an event, while autograd's thread calls the ops.
    shown += [_in_events(autograd)] if shown or vocabulary.eager else []
    for each in shown:
        building, rest = merge(building, intersect(rest, each)), subtract(rest, each)
    if vocabulary.eager:
        short = _short(rest)
        building, rest = merge(building, short), subtract(rest, short)
    if samples is None and vocabulary.python_calls:
        samples = python_calls(driver, rest, vocabulary)
        called, kinds, rest = refine(samples, rest)
        building = merge(building, called)
    if samples is not None:
        calling = intersect(_in_calls_alone(driver, vocabulary), by_activity[Activity.DISPATCH])
        # JAX hands NumPy's arrays over with the lock.
        handing = by_activity[Activity.HOST_TO_DEVICE] if vocabulary.framework == "jax" else EMPTY
        held = intersect(merge(calling, handing), samples.spans(GIL))
        for kind in (Activity.DISPATCH, Activity.HOST_TO_DEVICE):
            by_activity[kind] = subtract(by_activity[kind], held)
        kinds[GIL] = merge(kinds.get(GIL, EMPTY), held)
        if vocabulary.eager:
            # While dynamo traces a function it calls the same ops, on tensors that hold nothing.
            traced = intersect(by_activity[Activity.DISPATCH], samples.spans(COMPILING))
            by_activity[Activity.DISPATCH] = subtract(by_activity[Activity.DISPATCH], traced)
            by_activity[Activity.COMPILE] = merge(by_activity[Activity.COMPILE], traced)
    by_activity[vocabulary.building] = merge(by_activity[vocabulary.building], building)
    by_activity[Activity.HOST_NAMED] = merge(*kinds.values())
    by_activity[residual] = merge(by_activity.get(residual, EMPTY), rest)
    return {HOST_PREFIX + kind: spans for kind, spans in kinds.items() if len(spans.start)}, samples


def _in_calls_alone(driver: Track, vocabulary: Vocabulary) -> Spans:
    """Time in calls of programs, outside the runtime's own events in them: the runtime has let go of Python's lock.

    A call needs the lock again before it ends. What runs in the runtime waits for a CPU at most, though threads of the
    program take them.
    """
    segments = flatten(driver.start, driver.end, driver.parent)
    rows = vocabulary.calls.rows(driver.plane.events.names)
    chosen = np.isin(driver.name_row[segments.event], rows)
    return union(segments.start[chosen], segments.end[chosen])


def _short(rest: Spans) -> Spans:
    """Pauses that are too short for anything but the way from one op to the next."""
    chosen = rest.end - rest.start <= EAGER_PAUSE_PS
    return Spans(rest.start[chosen], rest.end[chosen])


def _covered(driver: Track, activity: Int64, vocabulary: Vocabulary, saving: npt.NDArray[np.bool_]) -> Int64:
    """Events inside one that covers all in it take its activity.

    The innermost one counts, but inside a checkpoint (`saving`) all is the checkpoint: saving reads every parameter.
    """
    rows = vocabulary.covers.rows(driver.plane.events.names)
    if not len(rows):
        return activity
    own = np.where(np.isin(driver.name_row, rows), activity, int(Activity.UNKNOWN))
    around = inherit(own, driver.parent, int(Activity.UNKNOWN))
    checkpoints = saving & np.isin(driver.name_row, rows)
    around[inherit(np.where(checkpoints, 1, -1), driver.parent) == 1] = int(Activity.USER)
    return np.where(around == int(Activity.UNKNOWN), activity, around)


def _counted_tracing(driver: Track) -> Spans:
    """When an annotation was open that says it traced many ops."""
    rows, per_ms = _ops_per_ms(driver)
    chosen = rows[per_ms >= TRACING_FROM_OPS_PER_MS]
    return union(driver.start[chosen], driver.end[chosen])


def _in_events(autograd: list[Track]) -> Spans:
    """When autograd's threads, whose ops are traced, left events."""
    return merge(*(union(track.start, track.end) for track in autograd), EMPTY)


def _ops_per_ms(driver: Track) -> tuple[Int64, npt.NDArray[np.float64]]:
    """The annotations that counted ops (rows), and how many they traced each millisecond."""
    stats = driver.stats(TRACED_OPS_STAT)
    ops = driver.plane.stat_integers(stats, TRACED_OPS_STAT, len(driver), missing=-1)
    rows = np.flatnonzero(ops >= 0)
    return rows, ops[rows] / np.maximum((driver.end - driver.start)[rows] / PS_PER_MS, 1e-9)


def _segments_of(segments: Segments, resolved: Int64, activity: Activity) -> Spans:
    chosen = resolved[segments.event] == activity
    return union(segments.start[chosen], segments.end[chosen])


def _user_names(driver: Track, activity: Int64, vocabulary: Vocabulary) -> Int64:
    """Name row of annotations that did something else than trace, -1 for all other events."""
    rows, per_ms = _ops_per_ms(driver)
    # A graph cut inside says nothing of the rest of the annotation: its events have their own activity.
    cuts = [row for row, name in enumerate(driver.plane.events.names) if vocabulary.cuts(name)]
    tracing = np.sort(driver.start[(activity == Activity.TRACING) & ~np.isin(driver.name_row, cuts)])
    inside = np.searchsorted(tracing, driver.end[rows]) - np.searchsorted(tracing, driver.start[rows])
    chosen = rows[(per_ms < TRACING_FROM_OPS_PER_MS) & (inside == 0)]
    names = np.full(len(driver), -1, np.int64)
    names[chosen] = driver.name_row[chosen]
    return names


def _user_spans(driver: Track, segments: Segments, resolved: Int64, label: Int64) -> dict[str, Spans]:
    """Spans of USER time by the name of the event that made it so: `label` has the row of each such event's name."""
    names = driver.plane.events.names
    label = inherit(label, driver.parent, -1)
    in_user = resolved[segments.event] == Activity.USER
    label = label[segments.event]
    spans: dict[str, Spans] = {}
    for row in (np.flatnonzero(np.bincount(label[in_user] + 1)[1:])).tolist():
        chosen = in_user & (label == row)
        spans[names[row].removeprefix(PREFIX)] = union(segments.start[chosen], segments.end[chosen])
    return spans


def _on_threads(threads: list[Track], codes: dict[int, Int64], activity: Activity) -> Spans:
    """When an event of that activity was open on any of the threads."""
    wanted = {plane: of_names == activity for plane, of_names in codes.items()}
    parts = []
    for track in threads:
        if wanted[id(track.plane)].any():
            chosen = np.flatnonzero(wanted[id(track.plane)][track.name_row])
            parts.append(union(track.start[chosen], track.end[chosen]))
    return merge(*parts)
