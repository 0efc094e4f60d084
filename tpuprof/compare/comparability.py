"""Whether two runs compare at all: what is unlike between them, before any number is compared with another."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from tpuprof.compare.noise import MIN_STEPS
from tpuprof.compare.private import same_words
from tpuprof.model import busy_machine
from tpuprof.render.content import spmd_text
from tpuprof.units import GIGA, format_share

if TYPE_CHECKING:
    from tpuprof.report.schema import Report

# Work on the device (FLOPs per step) that differs by more than this is another batch or model (share).
SAME_WORK = 0.01
# Device time in ops that both runs have, by name: below this the programs are called unlike. Two builds of one model
# share more; those of unlike models in the samples share less. A judgement (share of device self time).
SAME_OPS = 0.5
# Variables that JAX sets by itself (jax/_src/cloud_tpu_init.py), the first where it finds no TPU: whether a capture has
# them depends on when JAX was imported.
SET_BY_JAX = frozenset({"TPU_SKIP_MDS_QUERY", "TPU_ML_PLATFORM", "TPU_ML_PLATFORM_VERSION"})
_NUMBERS = re.compile(r"[.\d]+$|\.\d+|\.clone|\.remat\d*")
# From this share of waiting for a CPU on, a capture was made on a busy machine, and the report says so (share).
BUSY_MACHINE = 0.1


class Weight(StrEnum):
    """How much an unlikeness matters: `stop` forbids comparing, `care` may explain a difference, `note` informs."""

    STOP = "stop"
    CARE = "care"
    NOTE = "note"


@dataclass(frozen=True)
class Unlike:
    """One thing that is not the same in both runs."""

    what: str
    base: str
    candidate: str
    weight: Weight
    detail: str = ""


def unlike(base: Report, candidate: Report) -> list[Unlike]:
    """All that differs between the conditions of two runs, what matters most first."""
    found = [*_cannot(base, candidate), *_hardware(base, candidate), *_steps(base, candidate)]
    found += [*_scripts(base, candidate), *_programs(base, candidate)]
    found += [*_work(base, candidate), *_versions(base, candidate), *_variables(base, candidate)]
    found += _contention(base, candidate)
    order = list(Weight)
    return sorted(found, key=lambda each: order.index(each.weight))


def flops_per_step(report: Report) -> float | None:
    """FLOPs the profiler states for the device ops of one step, None where it states none."""
    return report.compute.flops_per_step if report.compute is not None else None


def cpu_wait(report: Report) -> float:
    """Share of its time the training process waited for a CPU that others had, 0 where the capture does not say."""
    return busy_machine.cpu_wait(_run(report)) or 0.0


def slowed_down(*reports: Report) -> float:
    """The most by which a busy machine can have stretched any of the runs (share of a step).

    A thread that waits the share w of the time it could run takes 1 / (1 - w) times as long.
    """
    worst = min(max(cpu_wait(report) for report in reports), 0.99)
    return 1 / (1 - worst) - 1 if worst >= BUSY_MACHINE else 0.0


def _contention(base: Report, candidate: Report) -> list[Unlike]:
    old, new = cpu_wait(base), cpu_wait(candidate)
    if max(old, new) < BUSY_MACHINE:
        return []
    detail = "share of time spent waiting for a CPU that others had: the machine was busy"
    return [Unlike("busy machine", format_share(old), format_share(new), Weight.CARE, detail)]


def _cannot(base: Report, candidate: Report) -> list[Unlike]:
    found = []
    if not (base.steps.all_hosts and candidate.steps.all_hosts):
        found.append(
            Unlike(
                "steps", _count(base), _count(candidate), Weight.STOP, "a run without steps has no step time"
            )
        )
    if base.predicted != candidate.predicted:
        names = {True: "predicted", False: "measured"}
        detail = "a compiler's estimate is not a measurement"
        found.append(Unlike("kind", names[base.predicted], names[candidate.predicted], Weight.STOP, detail))
    return found


def _hardware(base: Report, candidate: Report) -> list[Unlike]:
    names = ("device_type", "device_count", "host_count", "framework")
    pairs = [(name, base.environment.get(name), candidate.environment.get(name)) for name in names]
    old, new = (spmd_text(_run(each).get("spmd")) for each in (base, candidate))
    pairs.append(("topology (SPMD)", old, new))
    return [
        Unlike(name.replace("_", " "), str(old or "unknown"), str(new or "unknown"), Weight.CARE)
        for name, old, new in pairs
        if old != new
    ]


def _steps(base: Report, candidate: Report) -> list[Unlike]:
    found = []
    if base.steps.method != candidate.steps.method:
        detail = "boundaries of steps are drawn differently"
        found.append(Unlike("steps from", base.steps.method, candidate.steps.method, Weight.CARE, detail))
    counts = [report.steps.all_hosts for report in (base, candidate)]
    if 0 < min(counts) < MIN_STEPS:
        detail = f"fewer than {MIN_STEPS} steps say nothing of their spread"
        found.append(Unlike("steps", _count(base), _count(candidate), Weight.CARE, detail))
    elif counts[0] != counts[1] and min(counts):
        found.append(
            Unlike("steps", _count(base), _count(candidate), Weight.NOTE, "all numbers are per step")
        )
    return found


def _work(base: Report, candidate: Report) -> list[Unlike]:
    old, new = flops_per_step(base), flops_per_step(candidate)
    if old is None or new is None or abs(new - old) <= SAME_WORK * old:
        return []
    detail = "another batch size, sequence length or model"
    return [
        Unlike("work per step", f"{old / GIGA:.4g} GFLOP", f"{new / GIGA:.4g} GFLOP", Weight.CARE, detail)
    ]


def _words(report: Report) -> list[str]:
    """The command line, as far as the run's notes have one."""
    found = _run(report).get("command_line")
    return [str(each) for each in found] if isinstance(found, list) else []


def _scripts(base: Report, candidate: Report) -> list[Unlike]:
    """Whether both ran the same script, by its file name, with the same arguments."""
    old, new = (_words(each) for each in (base, candidate))
    if not old and not new:
        detail = "the runs do not say which script they are of"
        return [Unlike("script", "unknown", "unknown", Weight.NOTE, detail)]
    names = [PurePath(each[0]).name if each else "unknown" for each in (old, new)]
    same = same_words(base, candidate)
    if not same(*names):
        return [Unlike("script", names[0], names[1], Weight.CARE, "another program, as far as its name says")]
    if same(old[1:], new[1:]):
        return []
    texts = [shlex.join(each[1:]) or "none" for each in (old, new)]
    return [Unlike("arguments", texts[0], texts[1], Weight.NOTE, "of the script")]


def _programs(base: Report, candidate: Report) -> list[Unlike]:
    """Whether the device ran much the same ops, by their names without numbers."""
    old, new = _op_stems(base), _op_stems(candidate)
    if not old or not new:
        return []
    shares = [sum(own.get(name, 0.0) for name in old.keys() & new.keys()) for own in (old, new)]
    if min(shares) >= SAME_OPS:
        return []
    detail = (
        "share of device time in ops that both runs have: another program, or one that is compiled otherwise"
    )
    return [Unlike("device ops", format_share(shares[0]), format_share(shares[1]), Weight.CARE, detail)]


def _op_stems(report: Report) -> dict[str, float]:
    """Share of device self time by op name, numbers left out."""
    found: dict[str, float] = defaultdict(float)
    for op in report.ops:
        found[_NUMBERS.sub("", op.name)] += op.self_ms
    whole = sum(found.values())
    return {name: ms / whole for name, ms in found.items()} if whole else {}


def _versions(base: Report, candidate: Report) -> list[Unlike]:
    old, new = _run(base).get("versions") or {}, _run(candidate).get("versions") or {}
    return [
        Unlike(name, str(old[name]), str(new[name]), Weight.CARE)
        for name in sorted(old.keys() & new.keys())
        if old[name] != new[name]
    ]


def _variables(base: Report, candidate: Report) -> list[Unlike]:
    old, new = _run(base).get("environment") or {}, _run(candidate).get("environment") or {}
    same = same_words(base, candidate)
    return [
        Unlike(name, str(old.get(name, "not set")), str(new.get(name, "not set")), Weight.NOTE)
        for name in sorted((old.keys() | new.keys()) - SET_BY_JAX)
        if not same(old.get(name), new.get(name))
    ]


def _run(report: Report) -> dict[str, Any]:
    found = report.environment.get("run")
    return found if isinstance(found, dict) else {}


def _count(report: Report) -> str:
    return str(report.steps.all_hosts)
