"""How many programs TorchTPU was handed, and how many ran, of a trace without a device plane.

Its training thread hands work over in two ways: graphs of ops, which another thread builds, and functions that
torch.compile made. A third thread runs one program after the other. Where it is behind, the steps' own time is that of
a host that runs ahead, and the device may be what holds training up.
"""

from __future__ import annotations

import numpy as np

from tpuprof.model.device.cpu import Queue
from tpuprof.model.host.unfinished_work import feeding_share
from tpuprof.model.host.vocabulary import NameSet, Vocabulary
from tpuprof.model.intervals import Spans
from tpuprof.model.steps import Steps
from tpuprof.model.timeline import Host, Track, by_plane

# The named events of programs that are handed over.
_HANDED_OVER = ("built_graph", "compiled_call", "compiled_backward")


def queued_programs(
    host: Host, driver: Track | None, vocabulary: Vocabulary, steps: Steps, compiling: Spans
) -> Queue:
    """The programs of the whole recording: those that ran may have been handed over before it.

    In 27 captures on a CPU plugin as many ran as were handed over, or more; in two whose device was behind 56 and 68 %.
    """
    handed, ran = programs_counted(host, vocabulary)
    feeding = feeding_share(host, driver, vocabulary, steps, compiling)
    return Queue(handed, ran, feeding=feeding, seen=False)


def programs_counted(host: Host, vocabulary: Vocabulary) -> tuple[int, int]:
    """How many programs were handed over, and how many of so many ran."""
    handed = sum(_count(host, vocabulary.named(name)) for name in _HANDED_OVER)
    return handed, min(_count(host, vocabulary.handed_over), handed)


def _count(host: Host, names: NameSet) -> int:
    rows = by_plane(host.threads, lambda plane: names.rows(plane.events.names))
    return sum(int(np.isin(track.name_row, rows[id(track.plane)]).sum()) for track in host.threads)
