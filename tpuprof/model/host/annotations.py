"""The spans that a program names itself, and those that tpuprof opens around modules."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tpuprof.decode.columns import NO_TEXT
from tpuprof.model.intervals import Int64
from tpuprof.model.timeline import Track
from tpuprof.records import record

MARK_STAT = "tpuprof"
_ANNOTATION_KINDS = ("annotation", "module", "module_backward")


@record(frozen=True)
class Annotations:
    """The user's own spans on the training threads: name, kind (annotation, module, module_backward), ps."""

    name: list[str]
    kind: list[str]
    start: Int64
    end: Int64


def kinds_of_spans(track: Track) -> tuple[list[str], npt.NDArray[np.int32]]:
    """Values of the `tpuprof` stat and, by event, which of them an event has (-1: none)."""
    column = track.plane.stat_text(track.stats(MARK_STAT), MARK_STAT, len(track))
    return column.strings, column.codes


def annotations_of(threads: list[Track]) -> Annotations:
    """What the threads' spans say, thread by thread."""
    name: list[str] = []
    kind: list[str] = []
    start, end = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for track in threads:
        values, codes = kinds_of_spans(track)
        wanted = [value in _ANNOTATION_KINDS for value in values]
        rows = np.flatnonzero(np.array([*wanted, False], np.bool_)[codes])
        names = track.plane.events.names
        name += [names[row] if row >= 0 else "" for row in track.name_row[rows]]
        kind += [values[code] if code != NO_TEXT else "" for code in codes[rows]]
        start.append(track.start[rows])
        end.append(track.end[rows])
    return Annotations(name, kind, np.concatenate(start), np.concatenate(end))
