"""Which thread was followed, and which others gave the device work: steps and verdict are of one thread only."""

from __future__ import annotations

import numpy as np

from tpuprof.model.device.cpu import RUNTIME_THREADS
from tpuprof.model.host.driver import AUTOGRAD_THREAD
from tpuprof.model.host.vocabulary import Vocabulary
from tpuprof.model.timeline import Host, Track, by_plane
from tpuprof.records import record
from tpuprof.units import format_share


@record(frozen=True)
class TrainingThread:
    """A thread that handed programs over: how many, their share of all, and why it is the one followed (else empty)."""

    name: str
    programs: int
    share: float
    why: str = ""

    @property
    def followed(self) -> bool:
        """Whether steps and verdict are of this thread."""
        return bool(self.why)


def training_threads(host: Host, vocabulary: Vocabulary, driver: Track | None) -> list[TrainingThread]:
    """The followed thread first, then the others by the programs that they handed over."""
    names = vocabulary.handed_over if vocabulary.handed_over.exact else vocabulary.driver
    rows = by_plane(host.threads, lambda plane: names.rows(plane.events.names))
    counts = [(track, int(np.isin(track.name_row, rows[id(track.plane)]).sum())) for track in host.threads]
    total = sum(count for _, count in counts)
    found = [
        TrainingThread(track.label, count, count / total, _why(track) if track is driver else "")
        for track, count in counts
        if count
    ]
    return sorted(found, key=lambda each: (not each.followed, -each.programs))


def _why(driver: Track) -> str:
    marked = len(driver.line.read_stats(driver.plane.stat_keys(("_r",))))
    return "it has the step markers" if marked else "it cut most graphs"


def warnings_of(threads: list[TrainingThread]) -> list[str]:
    """What the reader must know where several threads gave the device work.

    Autograd's threads are no others: the training thread waits in `backward()` while they hand programs over. Nor are
    XLA's own, on which callbacks of the program run.
    """
    own = (AUTOGRAD_THREAD, RUNTIME_THREADS)
    threads = [each for each in threads if each.followed or not each.name.startswith(own)]
    if len(threads) < 2 or not threads[0].followed:
        return []
    followed, *others = threads
    most = max(others, key=lambda each: each.programs)
    text = (
        f"{len(threads)} threads handed programs to the device; steps and verdict are of thread {followed.name!r} "
        f"({format_share(followed.share)} of the programs), because {followed.why}"
    )
    if most.programs > followed.programs:
        text += f"; thread {most.name!r} handed over more ({format_share(most.share)}): mark the steps there"
    return [text]
