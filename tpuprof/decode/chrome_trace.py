"""Reads the profiler's Chrome-JSON export (`.trace.json`, `.trace.json.gz`) into the same columns as an XPlane.

The export loses what XPlane has beyond events: planes' own stats (so peaks are unknown) and HLO protos. XProf caps
it at about a million events and says nothing when it drops some; nothing here does. The compiled walk of
`chrome_native` reads what profilers write; this module reads any JSON, in many times the memory.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tpuprof.decode.columns import EventNames, Line, Plane, StatKind, StatTable, Trace, empty_stats
from tpuprof.decode.kineto import KINETO, is_kineto, normalised
from tpuprof.errors import Code, TpuprofError
from tpuprof.units import PS_PER_US

# The exporter stops at this many events (openxla/xprof's trace viewer limit), so a file at it is truncated.
EXPORT_EVENT_CAP = 1_000_000
_LONG_NAME = "long_name"
# A time that a tool writes as text, of at most so many characters.
_NUMBER = re.compile(r"-?[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?")
_NUMBER_BELOW = 64
# What may number a process or a thread.
_ID = (int, float, str, type(None))


def parse(data: bytes | bytearray, source: str) -> Trace:
    """Decode the bytes of one Chrome-JSON trace, already decompressed.

    Raises `TpuprofError`: `input-truncated` where the JSON ends early, `input-unknown-format` where it is no
    profiler export.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TpuprofError(
            Code.TRUNCATED,
            f"{source}: the JSON ends early or is damaged ({len(data):,} bytes read).",
            "Export it again, or use the .xplane.pb beside it.",
        ) from error
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        raise TpuprofError(
            Code.UNKNOWN_FORMAT,
            f"{source}: JSON without a list of trace events.",
            "Give an .xplane.pb or the profiler's .trace.json.gz.",
        )
    process, thread = names_of(events)
    spans = [_with_times(event) for event in events if _is_span(event)]
    by_torch = is_kineto(document, events)
    if by_torch:
        spans, process, streams = normalised(spans)
        thread |= streams
    grouped: dict[Any, dict[Any, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for event in spans:
        grouped[event.get("pid")][event.get("tid")].append(event)
    planes = [
        _plane(
            index, process.get(pid, f"process {pid}"), lines, {t: thread.get((pid, t), str(t)) for t in lines}
        )
        for index, (pid, lines) in enumerate(grouped.items())
    ]
    trace = Trace(source, KINETO if by_torch else "chrome-trace", len(data), planes)
    trace.warnings += at_cap(len(spans), len(events))
    return trace


def at_cap(spans: int, events: int) -> list[str]:
    """The warning of an export that ends at its writer's cap; one with more spans has another writer."""
    if not spans <= EXPORT_EVENT_CAP <= events:
        return []
    return [f"the export holds {spans:,} events, its cap: later ones were dropped"]


def names_of(events: list[Any]) -> tuple[dict[Any, str], dict[tuple[Any, Any], str]]:
    """What events call processes, by process, and threads, by process and thread."""
    process: dict[Any, str] = {}
    thread: dict[tuple[Any, Any], str] = {}
    for event in events:
        if not isinstance(event, dict) or event.get("ph") != "M" or not isinstance(event.get("args"), dict):
            continue
        if not isinstance(event.get("pid"), _ID) or not isinstance(event.get("tid"), _ID):
            continue
        name = str(event["args"].get("name", ""))
        if event.get("name") == "process_name":
            process[event.get("pid")] = name
        elif event.get("name") == "thread_name":
            thread[event.get("pid"), event.get("tid")] = name
    return process, thread


def _is_span(event: Any) -> bool:
    return (
        isinstance(event, dict)
        and event.get("ph") == "X"
        and time_of(event.get("ts")) is not None
        and time_of(event.get("dur", 0)) is not None
        and isinstance(event.get("pid"), (int, str))
        and isinstance(event.get("tid", 0), (int, str, type(None)))
    )


def time_of(value: Any) -> float | None:
    """A time (us) as a number, also where a tool writes it as text; None where it is none."""
    if isinstance(value, str):
        return float(value) if len(value) < _NUMBER_BELOW and _NUMBER.fullmatch(value) else None
    return value if isinstance(value, (int, float)) else None


def _with_times(event: dict[str, Any]) -> dict[str, Any]:
    """The event with its times as numbers."""
    if isinstance(event["ts"], str) or isinstance(event.get("dur"), str):
        return {**event, "ts": time_of(event["ts"]), "dur": time_of(event.get("dur", 0))}
    return event


def _plane(index: int, name: str, lines: dict[Any, list[dict[str, Any]]], threads: dict[Any, str]) -> Plane:
    """One process. An op's facts stand on its events in this format: they are lifted to its metadata."""
    is_device = name.startswith("/device:")
    stat_ids: dict[str, int] = {}
    names: dict[tuple[str, str], int] = {}
    facts: dict[int, dict[str, Any]] = {}
    built = []
    for position, (tid, events) in enumerate(lines.items()):
        ids = np.empty(len(events), np.int64)
        for row, event in enumerate(events):
            args = _args(event)
            key = (str(event.get("name", "")), str(args.get(_LONG_NAME, "")) if is_device else "")
            ids[row] = names.setdefault(key, len(names))
            if is_device and int(ids[row]) not in facts:
                facts[int(ids[row])] = args
        built.append(_line(position, threads[tid], events, ids, stat_ids))
    labels = list(names)
    metadata = [(row, key, value) for row, args in facts.items() for key, value in args.items()]
    stats = stat_table(metadata, stat_ids)
    return Plane(
        id=index,
        name=name,
        lines=built,
        events=EventNames(
            ids=np.arange(len(labels), dtype=np.int64),
            names=[long or short for short, long in labels],
            display_names=[short if long else "" for short, long in labels],
            stats=stats,
        ),
        stat_names={number: text for text, number in stat_ids.items()},
        stats=empty_stats(),
    )


def _line(index: int, name: str, events: list[dict[str, Any]], ids: Any, stat_ids: dict[str, int]) -> Line:
    stats = stat_table(
        ((row, key, value) for row, event in enumerate(events) for key, value in _args(event).items()),
        stat_ids,
    )

    def read_stats(keys: Sequence[int]) -> StatTable:
        keep = np.isin(stats.key, np.array(list(keys), np.int64))
        return StatTable(
            stats.row[keep],
            stats.key[keep],
            stats.kind[keep],
            stats.bits[keep],
            stats.length[keep],
            stats.heap,
        )

    return Line(
        id=index,
        name=name,
        timestamp_ns=0,
        metadata_id=ids,
        offset_ps=picoseconds(np.array([event["ts"] for event in events], np.float64)),
        duration_ps=picoseconds(np.array([event.get("dur", 0) for event in events], np.float64)),
        read_stats=read_stats,
    )


def _args(event: dict[str, Any]) -> dict[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def picoseconds(microseconds: npt.NDArray[np.float64]) -> Any:
    """Microseconds as int64 ps. The export writes them as decimals of exact picoseconds: rounding restores those."""
    usable = np.isfinite(microseconds) & (np.abs(microseconds) < 2**62 / PS_PER_US)
    return np.rint(np.where(usable, microseconds, 0.0) * PS_PER_US).astype(np.int64)


def stat_table(stats: Iterable[tuple[int, str, Any]], stat_ids: dict[str, int]) -> StatTable:
    """Stats as columns; keys that `stat_ids` does not have yet are added to it."""
    rows, keys, kinds, bits, lengths, heap = [], [], [], [], [], bytearray()
    for row, name, value in stats:
        kind, bits_of = number(value)
        length = 0
        if kind == StatKind.STR:
            text = str(value).encode("utf-8", "replace")
            bits_of, length = len(heap), len(text)
            heap += text
        rows.append(row)
        keys.append(stat_ids.setdefault(name, len(stat_ids) + 1))
        kinds.append(int(kind))
        bits.append(bits_of % 2**64)
        lengths.append(length)
    if not rows:
        return empty_stats()
    return StatTable(
        np.array(rows, np.int64),
        np.array(keys, np.int64),
        np.array(kinds, np.uint8),
        np.array(bits, np.uint64),
        np.array(lengths, np.int64),
        bytes(heap),
    )


def number(value: Any) -> tuple[StatKind, int]:
    """The export writes numbers as text; whole ones become INT64 again, all else stays text."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return StatKind.STR, 0
    text = str(value)
    if text.lstrip("-").isascii() and text.lstrip("-").isdigit() and len(text) < 20:
        number = int(text)
        if -(2**63) <= number < 2**63:
            return StatKind.INT64, number
    return StatKind.STR, 0
