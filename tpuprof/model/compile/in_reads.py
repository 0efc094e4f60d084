"""Compiles of graphs that a read of a value runs by itself: the line of the read is what made them."""

from __future__ import annotations

from dataclasses import replace

from tpuprof.model.compile.compiles import Compile
from tpuprof.model.intervals import Int64
from tpuprof.model.timeline import Track
from tpuprof.own_events import GRAPH_CUT, HOST_READ


def with_reads(compiles: list[Compile], driver: Track | None) -> list[Compile]:
    """The compiles, those that began inside a read of the training thread with the frame of that read.

    Frames that the process noted of a step are those of its graph cut, and a step may hold reads that compile as well.
    """
    if driver is None or not compiles or HOST_READ not in driver.plane.events.names:
        return compiles
    reads = driver.outermost(driver.named(HOST_READ))
    cuts = driver.named(GRAPH_CUT) if GRAPH_CUT in driver.plane.events.names else reads[:0]
    stats = driver.stats("call", "source")
    calls = driver.plane.stat_text(stats, "call", len(driver))
    sources = driver.plane.stat_text(stats, "source", len(driver))

    def around(rows: Int64, time: int) -> list[int]:
        found: list[int] = rows[(driver.start[rows] <= time) & (driver.end[rows] > time)].tolist()
        return found

    found = []
    for each in compiles:
        within = [] if each.frames or around(cuts, each.start_ps) else around(reads, each.start_ps)
        frame = f"{calls[within[0]]} ({sources[within[0]]})" if within else ""
        found.append(replace(each, frames=(frame,), in_read=True) if frame else each)
    return found
