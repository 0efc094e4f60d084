"""The compiles of a trace with what the capture noted of them: the Python frames that led to each, and JAX's own words.

JAX calls a listener after each compile, in the thread that compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tpuprof.model.compile.compiles import Compile, find_compiles
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.host.event_times import event_texts
from tpuprof.model.host.vocabulary import Vocabulary
from tpuprof.model.steps import Steps
from tpuprof.model.telemetry import StepRecord
from tpuprof.model.timeline import Host
from tpuprof.own_events import CACHE_MISS, COMPILED

_FRAMES, _DEFINED = "frames", "defined"


def noted_compiles(
    host: Host,
    vocabulary: Vocabulary,
    steps: Steps,
    devices: list[DeviceActivity],
    records: Sequence[StepRecord] = (),
) -> list[Compile]:
    """Compiles of one host in time order, as `find_compiles`, with the notes of the capture."""
    compiles = _with_frames(find_compiles(host, vocabulary, steps, devices, records), host)
    said = event_texts(host, CACHE_MISS, "text")
    if not said or not compiles:
        return compiles
    # Few traces have such messages, and only those need what reads them.
    from tpuprof.model.compile.explained import with_explanations

    return with_explanations(compiles, said)


def _with_frames(compiles: list[Compile], host: Host) -> list[Compile]:
    """The compiles, each with the frames of the first note between its end and that of the next."""
    notes = [(at, tuple(text.split(";"))) for at, text in event_texts(host, COMPILED, _FRAMES)]
    if not notes or not compiles:
        return compiles
    defined = dict(event_texts(host, COMPILED, _DEFINED))
    ends = [*(each.start_ps + each.duration_ps for each in compiles), np.iinfo(np.int64).max]
    found = []
    for each, (end, until) in zip(compiles, pairwise(ends), strict=True):
        at, frames = next((note for note in notes if end <= note[0] < max(until, end + 1)), (0, ()))
        found.append(replace(each, frames=frames, defined=defined.get(at, "")) if frames else each)
    return found
