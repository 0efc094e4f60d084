"""GPU planes: named and counted, so that a GPU's trace is not taken for a CPU's. Their work is not read yet."""

from __future__ import annotations

from tpuprof.decode.columns import Plane
from tpuprof.model.intervals import EMPTY, Spans, merge, union
from tpuprof.model.timeline import Track
from tpuprof.records import record
from tpuprof.units import format_ms, ps_to_ms

# A queue of a GPU; other lines of its plane say the same work again, by framework op or step.
_STREAM = "Stream #"
NOT_READ = "GPU planes are not read yet"


@record(frozen=True)
class Gpus:
    """The GPUs of one host: `busy` is when any stream of each GPU was busy, for those with any work."""

    count: int
    vendor: str
    busy: list[Spans]

    @property
    def type(self) -> str:
        """What to call the device."""
        return f"GPU ({self.vendor})" if self.vendor else "GPU"

    @property
    def text(self) -> str:
        """What can be said of them, in one sentence."""
        if not self.busy:
            return f"{NOT_READ}: the trace has {self.count} x {self.type}, all without work"
        busiest = max(spans.total for spans in self.busy)
        span = max(int(spans.end[-1]) for spans in self.busy) - min(
            int(spans.start[0]) for spans in self.busy
        )
        return (
            f"{NOT_READ}: {len(self.busy)} of {self.count} x {self.type} did work; on one or "
            f"more streams the busiest was busy for {format_ms(ps_to_ms(busiest))} of the {format_ms(ps_to_ms(span))} "
            "from the first to the last kernel"
        )


def read_gpus(planes: list[tuple[Plane, list[Track]]]) -> Gpus | None:
    """The GPUs of these planes, None where there are none."""
    if not planes:
        return None
    busy = [
        merge(*(union(track.start, track.end) for track in tracks if track.label.startswith(_STREAM)), EMPTY)
        for _, tracks in planes
    ]
    vendor = next((name for plane, _ in planes if (name := plane.own_stat("device_vendor"))), "")
    return Gpus(len(planes), vendor, [spans for spans in busy if len(spans.start)])
