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
    reads, cuts = driver.outermost(driver.named(HOST_READ)), driver.named(GRAPH_CUT)
    if not len(reads) and not len(cuts):
        return compiles

    def around(rows: Int64, time: int) -> list[int]:
        found: list[int] = rows[(driver.start[rows] <= time) & (driver.end[rows] > time)].tolist()
        return found

    unframed = [each for each in compiles if not each.frames and not around(cuts, each.start_ps)]
    asked = {each.start_ps: within[0] for each in unframed if (within := around(reads, each.start_ps))}
    others = [each for each in unframed if each.start_ps not in asked]
    frames = _frames_of(driver, asked)
    for each in _before_unasked(others, compiles, driver, words, cuts):
        source = seen_at(samples, each.start_ps + each.duration_ps // 2)
        call = IMPLICIT if all_lowered else ON_HOST
        frames[each.start_ps] = f"{call} ({source})" if source else call
    return [
        replace(each, frames=(frame,), in_read=True)
        if not each.frames and (frame := frames.get(each.start_ps))
        else each
        for each in compiles
    ]


def _frames_of(driver: Track, rows: dict[int, int]) -> dict[int, str]:
    """The reads in those rows as frames, by the same keys."""
    if not rows:
        return {}
    stats = driver.stats("call", "source")
    calls = driver.plane.stat_text(stats, "call", len(driver))
    sources = driver.plane.stat_text(stats, "source", len(driver))
    return {key: f"{calls[row]} ({sources[row]})" for key, row in rows.items()}


def _before_unasked(
    some: list[Compile], compiles: list[Compile], driver: Track, words: Vocabulary, cuts: Int64
) -> list[Compile]:
    """Those of some compiles of the thread that a transfer follows which no read of the program makes.

    No other compile and no graph cut comes between. Without graph cuts the trace does not show which reads are the
    program's own.
    """
    if not some or not len(cuts):
        return []
    transfers = np.sort(driver.start[unasked_reads(driver, words)])
    others = np.sort(np.concatenate([[each.start_ps for each in compiles], driver.start[cuts]]))
    begins = np.array([each.start_ps for each in some], np.int64)
    never = np.iinfo(np.int64).max
    read_at, next_at = (
        np.append(times, never)[np.searchsorted(times, begins, "right")] for times in (transfers, others)
    )
    # Threads that compile beside the training thread are none of its reads.
    found = np.isin(begins, driver.start) & (read_at < next_at)
    return [each for each, is_one in zip(some, found.tolist(), strict=True) if is_one]
