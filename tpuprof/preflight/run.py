"""Preflight as a whole: trace the script, compile its graphs for each target, predict."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tpuprof.errors import Code, TpuprofError
from tpuprof.preflight.combined import Iteration, iteration_dict
from tpuprof.preflight.compiler import CompileOptions, compile_all, known_targets
from tpuprof.preflight.graphs import Graph
from tpuprof.preflight.places import TORCH_TPU
from tpuprof.preflight.prediction import Prediction, predict, prediction_dict
from tpuprof.preflight.script import ScriptRun, Trace, trace_script
from tpuprof.preflight.targets import Target, known_names, parse_target

_SWEEP = re.compile(r"^([A-Za-z_][\w-]*)=(.+)$")
Progress = Callable[[str], None]
# By number of devices, and by the kind of chip where a kernel asked for it.
Traces = dict[tuple[int, str], Trace]


@dataclass
class Variant:
    """One thing to preflight: a script with its settings, under a label."""

    label: str
    run: ScriptRun


@dataclass
class Outcome:
    """A variant's traces, and its predictions: one a target and graph, targets in order.

    Traces go by the number of devices, and by the kind of chip where a kernel asked for it.
    """

    variant: Variant
    traces: Traces = field(default_factory=dict)
    predictions: list[Prediction] = field(default_factory=list)

    def trace_of(self, found: Prediction) -> Trace:
        """The trace a prediction's graph comes from."""
        return next(each for each in self.traces.values() if found.compiled.graph in each.graphs)

    def steady(self) -> list[Prediction]:
        """The predictions of the steady step's main graph, one per target."""
        return [each for each in self.predictions if each.compiled.graph is self.trace_of(each).steady]

    def iterations(self) -> list[Iteration]:
        """One training iteration per target."""
        found = []
        for main in self.steady():
            trace, target = self.trace_of(main), main.compiled.target
            times = {graph.key: count for graph, count in trace.iteration}
            parts = [
                (each, times[each.compiled.graph.key])
                for each in self.predictions
                if each.compiled.target == target and each.compiled.graph.key in times
            ]
            left_out = len(times) - len(parts)
            found.append(Iteration(target.name, parts, main, trace.trains, left_out))
        return found


def parse_targets(names: list[str], options: CompileOptions) -> list[Target]:
    """Targets by name; raises `TpuprofError` where a name is unknown, to us or to the installed libtpu."""
    targets = [parse_target(name) for name in names]
    for target, known in zip(targets, known_targets(targets, options), strict=True):
        if not known:
            candidates = [parse_target(name) for name in known_names()]
            answers = known_targets(candidates, options)
            listed = ", ".join(each.name for each, yes in zip(candidates, answers, strict=True) if yes)
            raise TpuprofError(
                Code.UNKNOWN_TARGET,
                f"The installed libtpu cannot compile for {target.name}.",
                f"It knows {listed}.",
            )
    return targets


def preflight(
    variant: Variant,
    targets: list[Target],
    options: CompileOptions,
    all_graphs: bool,
    progress: Progress,
    traces: Traces | None = None,
) -> Outcome:
    """Trace a variant once for each number of devices and compile its steady step (or every graph).

    `traces` are those that are known already.
    """
    outcome = Outcome(variant, dict(traces or {}))
    jobs: list[tuple[Graph, Target]] = []
    own = {**variant.run.place.compiler(), **variant.run.environment}
    options = replace(options, environment={**options.environment, **own})
    for target in targets:
        trace = trace_for(variant, outcome.traces, target, progress)
        graphs = trace.graphs if all_graphs else to_compile(trace)
        jobs += [(graph, target) for graph in graphs]
    progress(f"{variant.label}: compiling {len(jobs)} program(s)")
    outcome.predictions = [predict(each) for each in compile_all(jobs, options, progress)]
    return outcome


def to_compile(trace: Trace) -> list[Graph]:
    """The graphs of one iteration, without those that hold scalars only (a check of the loss, say)."""
    return [each for each, _ in trace.iteration if each is trace.steady or not each.small]


def sweep_values(text: str) -> tuple[str, list[str]]:
    """`batch=8,16,32` as a name and its values, numbers in rising order; raises `TpuprofError` (USAGE)."""
    found = _SWEEP.match(text)
    values = [each.strip() for each in found.group(2).split(",") if each.strip()] if found else []
    if found is None or not values:
        message = f"--sweep {text!r} is not NAME=VALUE,VALUE..."
        raise TpuprofError(Code.USAGE, message, "For example --sweep batch=8,16,32.")
    try:
        values.sort(key=float)
    except ValueError as error:
        raise TpuprofError(Code.USAGE, f"--sweep {text!r} has a value that is not a number.") from error
    return found.group(1), values


def with_setting(run: ScriptRun, name: str, value: str) -> ScriptRun:
    """A script run with one setting changed.

    `{name}` in an argument is replaced; else a name in capitals is an environment variable; else it is the
    script's option `--name`, replaced where it is given and appended where it is not.
    """
    mark = "{" + name + "}"
    if any(mark in each for each in run.arguments):
        return replace(run, arguments=[each.replace(mark, value) for each in run.arguments])
    if name.isupper():
        return replace(run, environment={**run.environment, name: value})
    option, arguments = f"--{name}", list(run.arguments)
    for index, each in enumerate(arguments):
        if each == option and index + 1 < len(arguments):
            arguments[index + 1] = value
            return replace(run, arguments=arguments)
        if each.startswith(f"{option}="):
            arguments[index] = f"{option}={value}"
            return replace(run, arguments=arguments)
    return replace(run, arguments=[*arguments, option, value])


def sweep(
    base: Variant, setting: str, targets: list[Target], options: CompileOptions, progress: Progress
) -> list[Outcome]:
    """Preflight rising values of a setting; a target drops out at its first value that does not fit."""
    name, values = sweep_values(setting)
    outcomes, left = [], list(targets)
    for value in values:
        if not left:
            break
        variant = Variant(f"{name}={value}", with_setting(base.run, name, value))
        outcome = preflight(variant, left, options, False, progress)
        outcomes.append(outcome)
        fitting = {
            each.target for each in outcome.iterations() if each.memory is not None and each.memory.fits
        }
        left = [each for each in left if each.name in fitting]
    return outcomes


def outcome_dict(outcome: Outcome) -> dict[str, Any]:
    """Plain values for JSON."""
    run = outcome.variant.run
    return {
        "label": outcome.variant.label,
        "script": run.script,
        "arguments": run.arguments,
        "environment": run.environment,
        "traces": [_trace_dict(devices, trace) for (devices, _), trace in outcome.traces.items()],
        "targets": [prediction_dict(found) for found in outcome.predictions],
        "iterations": [iteration_dict(each) for each in outcome.iterations()],
    }


def trace_for(variant: Variant, traces: Traces, target: Target, progress: Progress) -> Trace:
    """The variant's trace for a slice: one for each number of devices, and for each chip where kernels ask for it.

    A new one is put into `traces`.
    """
    for key in ((target.devices, ""), (target.devices, target.device_kind)):
        if key in traces:
            return traces[key]
    trace = _trace(variant, target, progress)
    traces[target.devices, target.device_kind if trace.asked_for_chip else ""] = trace
    return trace


def _trace(variant: Variant, target: Target, progress: Progress) -> Trace:
    runs = "runs on the CPU" if variant.run.place.framework == TORCH_TPU else "does not run"
    progress(
        f"{variant.label}: tracing {variant.run.script} for {target.devices} device(s); its device work {runs}"
    )
    run = replace(variant.run, devices=target.devices, chip_kind=target.device_kind)
    with tempfile.TemporaryDirectory(prefix="tpuprof-trace-") as folder:
        trace = trace_script(run, Path(folder))
    progress(f"{variant.label}: {len(trace.graphs)} distinct graph(s) in {trace.seconds:.1f} s")
    return trace


def _trace_dict(devices: int, trace: Trace) -> dict[str, Any]:
    return {
        "devices": devices,
        "spmd": trace.spmd,
        "source": trace.source,
        "distinct_graphs": len(trace.graphs),
        "steady": trace.is_steady,
        "training": trace.trains,
        "iteration": [{"graph": graph.number, "times": count} for graph, count in trace.iteration],
        "trace_seconds": round(trace.seconds, 3),
        "values_read_back": trace.reads,
        "weights_never_made_bytes": trace.unmade_bytes,
        "graphs": [
            {
                "number": g.number,
                "hash": g.key,
                "kind": g.kind,
                "count": g.count,
                "where": g.frames[:1],
                "updates_weights": g.updates,
            }
            for g in trace.graphs
        ],
        "barrier": trace.barrier,
        "notes": trace.notes,
        "warnings": trace.warnings,
    }
