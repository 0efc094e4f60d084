"""What makes slow steps slow: the part of the breakdown that grew most in each, and the steps that share one."""

from __future__ import annotations

import numpy as np

from tpuprof import parts as part
from tpuprof.model.intervals import Int64
from tpuprof.model.step_columns import Float64, StepColumns
from tpuprof.rules.shared.one_call import call_of
from tpuprof.rules.thresholds import UNEVEN_CAUSE_FROM_SHARE
from tpuprof.signals import Signals

# Parts that say what the host did, beside annotations and samples.
NAMED = (part.INPUT_WAIT, part.HOST_TO_DEVICE, part.HOST_SYNC)
_SLEEP = f"{part.HOST_PREFIX}sleep"
# What the host does with values that it has read. Waits are none of it.
_WORK = (f"{part.HOST_PREFIX}python", f"{part.HOST_PREFIX}io")
# Of the named families: tpuprof's own work, and a machine that gave the thread no CPU, are no doing of the program.
_NOT_THE_PROGRAM = (f"{part.USER_PREFIX}overhead", f"{part.HOST_PREFIX}stalled")


def read_and_worked_on(signals: Signals, rows: StepColumns) -> str:
    """The line below which values are read and worked on; empty without both, or where they are apart."""
    took = {name: float(rows.parts[name].sum()) for name in _WORK if name in rows.parts}
    largest = max(took, key=lambda name: took[name], default="")
    if part.HOST_SYNC not in rows.parts or not largest:
        return ""
    return call_of(signals.stacks_if_sampled, (part.HOST_SYNC, largest))


def costliest(causes: list[str], excess: Float64) -> tuple[str, list[int]]:
    """The cause whose slow steps cost most together, and which of the slow steps are its; empty without any cause."""
    costs: dict[str, float] = {}
    for cause, ms in zip(causes, excess.tolist(), strict=True):
        if cause:
            costs[cause] = costs.get(cause, 0.0) + ms
    cause = max(costs, key=lambda each: costs[each], default="")
    return cause, [at for at, each in enumerate(causes) if cause and each == cause]


def causes_of(rows: StepColumns, even: Int64, slow: Int64, excess: Float64, call: str) -> list[str]:
    """Of each slow step the named part that explains most of its excess, empty where none explains enough of it.

    Where one `call` reads values and works on them, reads and work are one cause.
    """
    names = [
        name
        for name in rows.parts
        if (name in NAMED or name.startswith((part.USER_PREFIX, part.HOST_PREFIX)))
        and name not in _NOT_THE_PROGRAM
    ]
    if not names:
        return [""] * len(slow)
    found = np.stack([rows.parts[name][slow] for name in names])
    usual = [sum(rows.parts[name][even].tolist()) / len(even) for name in names]
    # A part that a step has nothing of did not grow in it.
    grown = np.where(found != 0, found - np.array(usual)[:, None], -np.inf)
    if part.CHECKPOINT in names:
        _with_its_reads(names, grown)
    if call:
        _with_work_on_values(names, grown)
    most = np.argmax(grown, axis=0)
    enough = grown[most, np.arange(len(slow))] >= UNEVEN_CAUSE_FROM_SHARE * excess
    if part.COMPILE in rows.parts:
        enough &= rows.parts[part.COMPILE][slow] == 0
    return [names[row] if told else "" for row, told in zip(most.tolist(), enough.tolist(), strict=True)]


def _with_work_on_values(names: list[str], grown: Float64) -> None:
    """Count reads, and what the host does with the values, as the larger of both."""
    own = [row for row, name in enumerate(names) if name in (part.HOST_SYNC, *_WORK)]
    whole = np.maximum(grown[own], 0.0).sum(axis=0)
    largest = np.array(own)[np.argmax(grown[own], axis=0)]
    for step, row in enumerate(largest.tolist()):
        if grown[row, step] > 0:
            grown[row, step] = whole[step]


def _with_its_reads(names: list[str], grown: Float64) -> None:
    """Count what grew beside a checkpoint with it: it reads what it saves, writes it, and waits for both.

    A sleep is none of it, nor is other work that grew by more than the checkpoint and the reads did: histograms of all
    weights, say, in the step that saves them as well.
    """
    work = [row for row, name in enumerate(names) if name.startswith(part.HOST_PREFIX) and name != _SLEEP]
    reads = [row for row, name in enumerate(names) if name == part.HOST_SYNC]
    saved = names.index(part.CHECKPOINT)
    more = np.maximum(grown[[saved, *reads, *work]], 0.0)
    of_it = more[: 1 + len(reads)].sum(axis=0)
    largest = more[1 + len(reads) :].max(axis=0, initial=0.0)
    whole = np.where(largest <= of_it, more.sum(axis=0), grown[saved])
    grown[saved] = np.where(grown[saved] > 0, whole, grown[saved])
