"""Compiles of graphs that a read of a value runs by itself: the line of the read is what made them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpuprof.model.compile.compiles import Compile
from tpuprof.model.host.aten_fallbacks import unasked_reads
from tpuprof.model.host.reads import IMPLICIT, seen_at
from tpuprof.model.host.samples import HostSamples
from tpuprof.model.host.vocabulary import Vocabulary
from tpuprof.model.intervals import Int64
from tpuprof.model.timeline import Track
from tpuprof.own_events import GRAPH_CUT, HOST_READ

# What runs a graph for its inputs where ops run on the CPU.
ON_HOST = "an op on the host"


def with_reads(
    compiles: list[Compile],
    driver: Track | None,
    words: Vocabulary,
    samples: HostSamples | None = None,
    *,
    all_lowered: bool = True,
) -> list[Compile]:
    """The compiles, those of graphs that a read of the training thread ran with the frame of that read.

    Frames that the process noted of a step are those of its graph cut, and a step may hold reads that compile as well.
    A read that no call of the program asks for has its line by samples. Where not `all_lowered`, ops that run on the
    CPU read their inputs so.
    """
    if driver is None or not compiles:
        return compiles
    events = driver.plane.events.names
    reads = driver.outermost(driver.named(HOST_READ)) if HOST_READ in events else np.empty(0, np.int64)
    cuts = driver.named(GRAPH_CUT) if GRAPH_CUT in events else reads[:0]
    stats = driver.stats("call", "source")
    calls = driver.plane.stat_text(stats, "call", len(driver))
    sources = driver.plane.stat_text(stats, "source", len(driver))

    def around(rows: Int64, time: int) -> list[int]:
        found: list[int] = rows[(driver.start[rows] <= time) & (driver.end[rows] > time)].tolist()
        return found

    implicit = _before_unasked(compiles, driver, words, cuts)
    found = []
    for each in compiles:
        within = around(reads, each.start_ps)
        if each.frames or around(cuts, each.start_ps):
            frame = ""
        elif within:
            frame = f"{calls[within[0]]} ({sources[within[0]]})"
        elif each.start_ps in implicit:
            source = seen_at(samples, each.start_ps + each.duration_ps // 2)
            frame = (IMPLICIT if all_lowered else ON_HOST) + (f" ({source})" if source else "")
        else:
            frame = ""
        found.append(replace(each, frames=(frame,), in_read=True) if frame else each)
    return found


def _before_unasked(compiles: list[Compile], driver: Track, words: Vocabulary, cuts: Int64) -> set[int]:
    """When those compiles of the thread began (ps) that a transfer follows which no read of the program makes.

    No other compile and no graph cut comes between. Without graph cuts the trace does not show which reads are the
    program's own.
    """
    if not len(cuts):
        return set()
    transfers = np.sort(driver.start[unasked_reads(driver, words)])
    if not len(transfers):
        return set()
    begins = np.array([each.start_ps for each in compiles], np.int64)
    others = np.sort(np.concatenate([begins, driver.start[cuts]]))
    never = np.iinfo(np.int64).max
    read_at, next_at = (
        np.append(times, never)[np.searchsorted(times, begins, "right")] for times in (transfers, others)
    )
    # Threads that compile beside the training thread are none of its reads.
    own = np.isin(begins, driver.start)
    return set(begins[own & (read_at < next_at)].tolist())
