"""A note that somebody made on a span of a run."""

from __future__ import annotations

from tpuprof.records import record


@record(frozen=True)
class SpanNote:
    """A note on a span. Times in ns, the start from the origin of the host's trace; `written_at` is ISO 8601, UTC.

    `lane` and `name` are of the event it was made on.
    """

    host: str
    lane: str
    name: str
    start_ns: int
    duration_ns: int
    text: str
    written_at: str
