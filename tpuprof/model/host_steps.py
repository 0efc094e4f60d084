"""The steps of one host, and the compiles in them: which captured steps count, told by what the process noted, too."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tpuprof.model.compile.compiles import Compile
from tpuprof.model.compile.noted import noted_compiles
from tpuprof.model.compile.recurrence import History, without_one_off
from tpuprof.model.compile.traced_causes import with_traced_causes
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.recorded_ops import within_ops
from tpuprof.model.host.activity import HostActivity
from tpuprof.model.host.eager_causes import with_upload_causes
from tpuprof.model.host.recorded import recorded_of
from tpuprof.model.host.stacks import LOCK
from tpuprof.model.host.unfinished_work import waits_elsewhere, work_is_elsewhere
from tpuprof.model.host.vocabulary import Activity, Vocabulary
from tpuprof.model.intervals import EMPTY, Spans, merge
from tpuprof.model.outside_capture import outside_of
from tpuprof.model.ready_batches import without_ready_batches
from tpuprof.model.run_ahead import with_even_ends, without_run_up
from tpuprof.model.steps import Steps, find_steps
from tpuprof.model.steps.few import few_steps
from tpuprof.model.steps.older_work import of_a_device_not_shown
from tpuprof.model.steps.training_calls import Functions, Trains
from tpuprof.model.timeline import Host, Track
from tpuprof.parts import HOST_PREFIX


def host_steps(
    host: Host,
    words: Vocabulary,
    driver: Track | None,
    devices: list[DeviceActivity],
    activity: HostActivity,
    history: History,
    protos: dict[str, bytes],
) -> tuple[Steps, list[Compile] | None, History]:
    """The steps, the compiles where they were needed to find them, and the history as the steps are numbered."""
    recorded = replace(recorded_of(host), compiling=_making(activity, words))
    steps = find_steps(driver, devices, words, recorded, _trains(protos))
    steps = steps if len(steps) else few_steps(driver, devices, recorded, host_alone=words.eager)
    steps = (
        with_even_ends(steps, devices, activity.dispatching)
        if devices
        else without_run_up(of_a_device_not_shown(steps, host, driver, words, history.walls_ms))
    )
    locks = activity.named.get(HOST_PREFIX + LOCK, EMPTY)
    steps = within_ops(steps, devices)
    outside = outside_of(steps.wall_ps, history.after)
    waiting = merge(activity.spans(Activity.INPUT_WAIT), locks)
    steps = without_ready_batches(steps, waiting, outside.later if outside else None)
    history = history.in_steps_like(steps).with_all_after()
    if history.after is None:
        return steps, None, history
    compiles = noted_compiles(host, words, steps, devices, history.records)
    left, compiles_left = without_one_off(steps, compiles, history)
    if not devices and len(left) < len(steps):
        elsewhere = work_is_elsewhere(host, driver, words, steps, left)
        if elsewhere or waits_elsewhere(driver, words, steps, left, activity.compiling):
            from tpuprof.model.compile.cut_compiles import without_their_compiles

            left, compiles_left = without_their_compiles(steps, left, compiles)
    return left, compiles_left, history


def _making(activity: HostActivity, words: Vocabulary) -> Spans:
    """When the training thread makes programs: it compiles or, where calls are dispatched (JAX), traces them."""
    compiling = activity.spans(Activity.COMPILE)
    return (
        merge(compiling, activity.spans(Activity.TRACING))
        if words.building is Activity.DISPATCH
        else compiling
    )


def _trains(protos: dict[str, bytes]) -> Trains:
    """Which functions train, by their programs: only traces of JAX without step markers ask."""

    def trains(called: Collection[str]) -> Functions:
        from tpuprof.model.steps.training_functions import training_functions

        return training_functions(protos.items(), called)

    return trains


def host_compiles(
    host: Host,
    words: Vocabulary,
    steps: Steps,
    devices: list[DeviceActivity],
    known: list[Compile] | None,
    history: History,
    *,
    unnamed: bool,
) -> list[Compile]:
    """Compiles with their causes; those of `unnamed` programs, which the trace lacks, from torch.compile's log."""
    compiles = known if known is not None else noted_compiles(host, words, steps, devices, history.records)
    if not words.eager or not unnamed:
        return compiles
    return with_traced_causes(with_upload_causes(compiles, host, steps), history.programs)
