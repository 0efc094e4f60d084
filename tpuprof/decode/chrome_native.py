"""Reads a Chrome-JSON trace by the compiled walk: columns at once, arguments only when asked for.

What the walk finds unusual is left to `chrome_trace`, which reads any JSON.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import orjson

from tpuprof.decode import _chrome
from tpuprof.decode.chrome_trace import at_cap, names_of, number, picoseconds, stat_table
from tpuprof.decode.columns import EventNames, Int64, Line, Plane, StatKind, StatTable, Trace, empty_stats
from tpuprof.records import record

Data = bytes | bytearray | memoryview
Place = tuple[int, int]
# Read before the pages of a mapped file are given back (bytes).
_STRETCH = 64 << 20
# Keys that one walk over arguments looks for.
_KEYS_AT_ONCE = 64


@record
class _Events:
    """Spans of a file in columns, one row each; `pid`, `tid` and names are codes, -1 for none."""

    pid: Int64
    tid: Int64
    name: Int64
    long_name: Int64
    ts: Any
    dur: Any
    begin: Int64
    end: Int64


@record
class _File:
    """A walked file: its bytes, spans, and what the codes mean."""

    data: Data
    events: _Events
    pids: list[Any]
    tids: list[Any]
    texts: list[str]
    process: dict[Any, str]
    thread: dict[tuple[Any, Any], str]
    keys: Callable[[int], list[str]]
    seed: int
    drop_pages: Callable[[], None]


def parse(data: Data, source: str, drop_pages: Callable[[], None] = lambda: None) -> Trace | None:
    """Decode the bytes of one Chrome-JSON trace; None where they are unusual.

    `drop_pages` gives back the memory of a mapped file's pages now and then.
    """
    try:
        file, events = _walked(data, drop_pages)
        planes = _planes(file) if file is not None else []
    except (_chrome.UnusualError, ValueError, TypeError):  # such as a process numbered by a list
        return None
    spans = len(file.events.pid) if file is not None else 0
    drop_pages()
    return Trace(source, "chrome-trace", len(data), planes, warnings=at_cap(spans, events))


def _walked(data: Data, drop_pages: Callable[[], None]) -> tuple[_File | None, int]:
    """The file and how many events it has, those that name something included."""
    at, inside = _chrome.array_of_events(data)
    seed = random.getrandbits(63)
    walk = _chrome.Walk(data, at, seed)
    while walk.go(_STRETCH):
        drop_pages()
    if not _chrome.ends_well(data, walk.at, inside):
        raise _chrome.UnusualError
    metadata = [orjson.loads(data[begin:end]) for begin, end in walk.metadata]
    columns = walk.columns()
    if columns is None:
        return None, len(metadata)
    events = _Events(*(np.asarray(each) for each in columns))
    pids, tids, texts = ([orjson.loads(data[begin:end]) for begin, end in each] for each in walk.names)

    def keys(pid: int) -> list[str]:
        return [str(data[begin:end], "utf-8") for begin, end in walk.keys_of(pid)]

    file = _File(data, events, pids, tids, texts, *names_of(metadata), keys, seed, drop_pages)
    return file, len(metadata) + len(events.pid)


def _planes(file: _File) -> list[Plane]:
    """One plane for each process, in the order in which they come; so are its lines."""
    events = file.events
    # Two texts may mean the same: "a" and "\\u0061".
    distinct = list(dict.fromkeys(file.pids))
    own = np.array([distinct.index(each) for each in file.pids], np.int64)
    threads = {each: row for row, each in enumerate(dict.fromkeys([*file.tids, None]))}
    thread = np.array([threads[each] for each in [*file.tids, None]], np.int64)[events.tid]
    key = own[events.pid] * len(threads) + thread
    order = np.argsort(key, kind="stable")
    lines = np.split(order, np.flatnonzero(np.diff(key[order])) + 1)
    lines.sort(key=lambda rows: int(rows[0]))
    by_process: dict[int, list[Int64]] = {}
    for rows in lines:
        by_process.setdefault(int(own[events.pid[rows[0]]]), []).append(rows)
    names = list(threads)
    return [
        _plane(file, index, distinct[pid], [(names[int(thread[rows[0]])], rows) for rows in by_process[pid]])
        for index, pid in enumerate(by_process)
    ]


def _plane(file: _File, index: int, pid: Any, lines: list[tuple[Any, Int64]]) -> Plane:
    name = file.process.get(pid, f"process {pid}")
    keys = dict.fromkeys(key for code, each in enumerate(file.pids) if each == pid for key in file.keys(code))
    stat_ids = {key: number for number, key in enumerate(keys, 1)}
    rows = np.concatenate([rows for _, rows in lines])
    ids, labels, first = _names(file, rows, with_long=name.startswith("/device:"))
    facts: list[tuple[int, str, Any]] = []
    if name.startswith("/device:"):
        facts = [(at, key, value) for at, row in enumerate(first) for key, value in _arguments(file, row)]
    ends = np.cumsum([len(rows) for _, rows in lines])
    built = [
        _line(file, position, file.thread.get((pid, tid), str(tid)), own, ids[end - len(own) : end], stat_ids)
        for position, ((tid, own), end) in enumerate(zip(lines, ends.tolist(), strict=True))
    ]
    return Plane(
        id=index,
        name=name,
        lines=built,
        events=EventNames(
            ids=np.arange(len(labels), dtype=np.int64),
            names=[long or short for short, long in labels],
            display_names=[short if long else "" for short, long in labels],
            stats=stat_table(facts, stat_ids),
        ),
        stat_names={number: text for text, number in stat_ids.items()},
        stats=empty_stats(),
    )


def _names(file: _File, rows: Int64, with_long: bool) -> tuple[Int64, list[tuple[str, str]], list[int]]:
    """A number for the name of each row, what the names are in the order in which they come, and the first of each."""
    texts = [*file.texts, ""]  # the last is that of code -1
    code = (file.events.name[rows] + 1) * len(texts)
    if with_long:
        code += file.events.long_name[rows] + 1
    distinct, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    labels: dict[tuple[str, str], int] = {}
    place = np.empty(len(distinct), np.int64)
    begins: list[int] = []
    for each in np.argsort(first).tolist():
        short, long = divmod(int(distinct[each]), len(texts))
        label = texts[short - 1], texts[long - 1]
        place[each] = labels.setdefault(label, len(labels))
        if len(labels) > len(begins):
            begins.append(int(rows[first[each]]))
    return place[inverse.reshape(-1)], list(labels), begins


def _arguments(file: _File, row: int) -> list[tuple[str, Any]]:
    begin, end = int(file.events.begin[row]), int(file.events.end[row])
    return list(orjson.loads(file.data[begin:end]).items()) if end > begin else []


def _line(file: _File, index: int, name: str, rows: Int64, ids: Int64, stat_ids: dict[str, int]) -> Line:
    begin, end = file.events.begin[rows], file.events.end[rows]

    def read_stats(keys: Sequence[int]) -> StatTable:
        return _stats(file, begin, end, {key: text for text, key in stat_ids.items() if key in keys})

    return Line(
        id=index,
        name=name,
        timestamp_ns=0,
        metadata_id=ids,
        offset_ps=picoseconds(file.events.ts[rows]),
        duration_ps=picoseconds(file.events.dur[rows]),
        read_stats=read_stats,
    )


def _stats(file: _File, begin: Int64, end: Int64, wanted: dict[int, str]) -> StatTable:
    """Arguments of these events under some keys (id and text), as a table of stats."""
    ids, texts = list(wanted), [text.encode() for text in wanted.values()]
    if not ids or not len(begin):
        return empty_stats()
    if len(ids) > _KEYS_AT_ONCE:
        raise ValueError("more keys than one walk looks for")
    found, count, places = _chrome.arguments(file.data, begin, end, texts, file.seed)
    file.drop_pages()
    table = np.asarray(found)[:count]
    heap, start, length, whole = bytearray(), [0], [0], [False]
    bits = table[:, 3].copy()
    for at, stop in places:
        value = orjson.loads(file.data[at:stop])
        kind, plain = number(value)
        text = b"" if kind == StatKind.INT64 else str(value).encode("utf-8", "replace")
        start.append(plain if kind == StatKind.INT64 else len(heap))
        length.append(len(text))
        whole.append(kind == StatKind.INT64)
        heap += text
    code = table[:, 2] + 1
    is_text = (code > 0) & ~np.array(whole)[code]
    return StatTable(
        table[:, 0].copy(),
        np.array(ids, np.int64)[table[:, 1]],
        np.where(is_text, int(StatKind.STR), int(StatKind.INT64)).astype(np.uint8),
        np.where(code > 0, np.array(start, np.int64)[code], bits).view(np.uint64),
        np.array(length, np.int64)[code],
        bytes(heap),
    )
