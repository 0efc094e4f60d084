"""The Python frames that led to each compile, where the capture put them on the timeline.

JAX calls a listener after each compile, in the thread that compiled.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from tpuprof.model.compile.compiles import Compile
from tpuprof.model.timeline import Host
from tpuprof.safe_text import FROM_SAFE

COMPILED_EVENT = "tpuprof.compiled"
_FRAMES = "frames"


def with_noted_frames(compiles: list[Compile], host: Host) -> list[Compile]:
    """The compiles, each with the frames of the first note between its end and that of the next."""
    notes = _notes(host)
    if not notes or not compiles:
        return compiles
    ends = [*(each.start_ps + each.duration_ps for each in compiles), np.iinfo(np.int64).max]
    found = []
    for each, (end, until) in zip(compiles, pairwise(ends), strict=True):
        frames = next((frames for at, frames in notes if end <= at < max(until, end + 1)), ())
        found.append(replace(each, frames=frames) if frames else each)
    return found


def _notes(host: Host) -> list[tuple[int, tuple[str, ...]]]:
    """When the capture noted a compile (ps), and what."""
    found = []
    for track in host.threads:
        names = track.plane.events.names
        rows = np.flatnonzero(
            np.isin(track.name, [row for row, name in enumerate(names) if name == COMPILED_EVENT])
        )
        if len(rows):
            texts = track.plane.stat_text(track.stats(_FRAMES), _FRAMES, len(track))
            found += [
                (int(track.start[row]), tuple(texts[row].translate(FROM_SAFE).split(";")))
                for row in rows.tolist()
                if texts[row]
            ]
    return sorted(found)
