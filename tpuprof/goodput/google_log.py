"""Reads a job's log as ml-goodput-measurement's recorder writes it, so that both calculators can be given the same.

An entry is a JSON object with one time in it (seconds since the epoch). A step is known by its start alone: it ends
where the next one starts, and what a crash cut off ends nowhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tpuprof.goodput.attempts import Attempt, Span, Steps, no_steps
from tpuprof.goodput.vocabulary import DATA, INITIALIZATION, PREPARATION, RESTORE, SAVE
from tpuprof.units import NS_PER_S

_PHASES = {"tpu_init": INITIALIZATION, "training_prep": PREPARATION, "data_loading": DATA}
# Time and length of a checkpoint's entry, by its kind.
_CHECKPOINTS = {
    "save": (SAVE, "checkpoint_manager_blocking_start_time", "checkpoint_manager_blocking_duration_secs"),
    "restore": (RESTORE, "checkpoint_manager_start_time", "checkpoint_manager_duration_secs"),
    "emergency_restore": (RESTORE, "checkpoint_manager_start_time", "checkpoint_manager_duration_secs"),
}
Entry = Mapping[str, Any]


def attempts_of(entries: Iterable[Entry]) -> list[Attempt]:
    """The attempts of a job; each begins with a `job_start_time`."""
    groups: list[list[Entry]] = []
    for entry in entries:
        if "job_start_time" in entry or not groups:
            groups.append([])
        groups[-1].append(entry)
    return [_attempt(group, last=at == len(groups) - 1) for at, group in enumerate(groups)]


def _attempt(entries: list[Entry], *, last: bool) -> Attempt:
    begun = [
        (int(each["step_count"]), _ns(each["step_start_time"]))
        for each in entries
        if "step_start_time" in each
    ]
    ends = [_ns(each["job_end_time"]) for each in entries if "job_end_time" in each]
    spans = _phases(entries) + _custom(entries) + _checkpoints(entries)
    known = [at for _, at in begun] + [span.end_ns for span in spans] + ends
    start = min(
        (_ns(each["job_start_time"]) for each in entries if "job_start_time" in each), default=min(known)
    )
    end = max([start, *known])
    if last and ends:
        begun.append((begun[-1][0] + 1, ends[-1])) if begun else None
    elif begun:
        end = begun[-1][1]
    return Attempt(start, end, _steps(begun), spans, "finished" if ends else "")


def _steps(begun: list[tuple[int, int]]) -> Steps:
    pairs = [
        (number, start, end)
        for (number, start), (after, end) in itertools.pairwise(begun)
        if after == number + 1
    ]
    if not pairs:
        return no_steps()
    number, start, end = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    return Steps(number, start, end)


def _phases(entries: list[Entry]) -> list[Span]:
    """Initialization, preparation, and the loading that the first step waited for; later loading is beside steps."""
    found = []
    for name, kind in _PHASES.items():
        began = None
        for entry in entries:
            if f"{name}_start_time" in entry:
                began = _ns(entry[f"{name}_start_time"])
            elif f"{name}_end_time" in entry and began is not None:
                found.append(Span(kind, began, _ns(entry[f"{name}_end_time"])))
                began = None
                if kind == DATA:
                    break
    return found


def _custom(entries: list[Entry]) -> list[Span]:
    found, open_events = [], {}
    for entry in entries:
        name = str(entry.get("custom_badput_event_type", "")).lower()
        if "custom_badput_event_start_time" in entry:
            open_events[name] = _ns(entry["custom_badput_event_start_time"])
        elif "custom_badput_event_end_time" in entry and name in open_events:
            found.append(
                Span(name, open_events.pop(name), _ns(entry["custom_badput_event_end_time"]), custom=True)
            )
    return found


def _checkpoints(entries: list[Entry]) -> list[Span]:
    found = []
    for entry in entries:
        kind, start, length = _CHECKPOINTS.get(str(entry.get("event_type")), ("", "", ""))
        if kind and start in entry and length in entry:
            began = _ns(entry[start])
            found.append(Span(kind, began, began + _ns(entry[length])))
    return found


def _ns(seconds: float) -> int:
    return round(float(seconds) * NS_PER_S)
