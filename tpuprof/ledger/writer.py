"""Writes one process's ledger: a small tail once per second, packed into the ledger proper from time to time.

Nothing here raises: a folder that is full, gone or read-only costs rows, which are counted and reported in the ledger
as soon as it can be written again.
"""

from __future__ import annotations

import json
import os
import struct
import threading
from pathlib import Path
from typing import Any

from tpuprof.ledger import blocks, rows
from tpuprof.ledger.blocks import Kind
from tpuprof.ledger.clock import Clock
from tpuprof.ledger.rows import Row
from tpuprof.run_folder import LEDGER_SCHEMA, LEDGERS
from tpuprof.units import NS_PER_S

LEDGER, TAIL = ".ledger", ".tail"
# Rows after which the tail is packed (rows), and its size (bytes): between the two a kill leaves unpacked rows.
PACK_ROWS = 4096
PACK_BYTES = 2**20
# Rows and events kept in memory while nothing can be written (count).
MAX_WAITING = 20_000
# How far wall clock and steady clock may drift apart between two flushes before it counts as a jump (ns): clock
# discipline moves a clock by less than 0.5 ms per second.
JUMP_NS = 500_000_000
_LIFE = struct.Struct("<qq")
_LOCK_SECONDS = 5.0


class LedgerWriter:
    """Appends rows and events; `flush` writes them. `problem` says why nothing can be written, empty if it can."""

    def __init__(self, folder: Path, name: str, meta: dict[str, Any], clock: Clock) -> None:
        self.problem = ""
        self.lost_rows = 0
        self.path = folder / LEDGERS / name
        self._meta = {"schema": LEDGER_SCHEMA} | meta
        self._clock = clock
        self._process = os.getpid()
        self._lock = threading.RLock()
        # Rows and events not written yet, and those in the tail, which packing writes again in fewer blocks.
        self._rows: list[Row] = []
        self._events: list[dict[str, Any]] = []
        self._tail_rows: list[Row] = []
        self._tail_events: list[dict[str, Any]] = []
        self._anchors: list[bytes] = []
        self._written_rows = self._written_events = 0
        self._handle: int | None = None
        self._tail_bytes = 0
        self._offset: int | None = None
        self._meta_changed = True
        self._unreported = 0
        self._closed = False

    def add(self, row: Row) -> None:
        """Take over the row of a step that ended."""
        self._rows.append(row)

    def event(self, kind: str, at_ns: int | None = None, **facts: Any) -> None:
        """Take over something that happened, now unless `at_ns` says when by the clock."""
        when = self._clock.now_ns() if at_ns is None else at_ns
        self._events.append({"kind": kind, "at_ns": when} | facts)

    def describe(self, **facts: Any) -> None:
        """Add to what the ledger says of its process."""
        if any(self._meta.get(key) != value for key, value in facts.items()):
            self._meta |= facts
            self._meta_changed = True

    def about(self, *names: str) -> dict[str, Any]:
        """What the ledger says of its process."""
        return {name: self._meta.get(name) for name in names}

    def rank(self) -> int | None:
        """The rank that the ledger says, None where it is unknown."""
        found = self._meta.get("rank")
        return found if isinstance(found, int) else None

    def flush(self) -> bool:
        """Write what there is, and that the process is alive; whether that worked."""
        if self._closed or os.getpid() != self._process or not self._lock.acquire(timeout=_LOCK_SECONDS):
            return False
        try:
            return self._flush()
        except Exception as error:  # a ledger is never worth a training run
            self._failed(error)
            return False
        finally:
            self._lock.release()

    def close(self, how: str) -> None:
        """Write the last rows, say how the process ended, and pack the tail."""
        if self._closed or os.getpid() != self._process:
            return
        self.event("end", how=how)
        if self.flush():
            with self._lock:
                try:
                    self._pack()
                    self._drop_tail()
                except OSError as error:
                    self._failed(error)
        self._closed = True

    def abandon(self) -> None:
        """In a forked process: the ledger is the parent's."""
        self._closed = True
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def _flush(self) -> bool:
        self._bound_waiting()
        now, wall = self._clock.now_ns(), self._clock.wall_ns()
        self._look_at_clock(now, wall)
        new_rows, new_events = self._rows[:], self._events[:]
        lost = {"kind": "rows_lost", "at_ns": now, "rows": self._unreported, "why": self.problem}
        events = [*new_events, lost] if self._unreported else new_events
        self._write(
            b"".join(self._blocks(new_rows, events)) + blocks.encode(Kind.LIFE, _LIFE.pack(wall, now))
        )
        del self._rows[: len(new_rows)], self._events[: len(new_events)]
        self._tail_rows += new_rows
        self._tail_events += events
        self._unreported = 0
        self._meta_changed = False
        self.problem = ""
        if len(self._tail_rows) >= PACK_ROWS or self._tail_bytes >= PACK_BYTES:
            self._pack()
        return True

    def _blocks(self, new_rows: list[Row], new_events: list[dict[str, Any]]) -> list[bytes]:
        found = []
        if self._meta_changed or not self._tail_bytes:
            found.append(blocks.encode(Kind.META, _json(self._meta)))
        first_row = self._written_rows + len(self._tail_rows)
        first_event = self._written_events + len(self._tail_events)
        if new_rows:
            found.append(blocks.encode(Kind.STEPS, rows.encode(first_row, new_rows)))
        if new_events:
            found.append(blocks.encode(Kind.EVENTS, _json({"first": first_event, "events": new_events})))
        return found

    def _look_at_clock(self, now: int, wall: int) -> None:
        offset = wall - now
        life = blocks.encode(Kind.LIFE, _LIFE.pack(wall, now))
        if self._offset is not None and abs(offset - self._offset) > JUMP_NS:
            self.event("clock_jump", now, seconds=(offset - self._offset) / NS_PER_S)
            self._anchors.append(life)
        if self._offset is None:
            self._anchors.append(life)
        self._offset = offset

    def _write(self, data: bytes) -> None:
        """Append to the tail. Where only a part could be written, that part is taken back. Raises `OSError`."""
        if self._handle is None:
            self._handle = self._open_tail()
        try:
            written = os.write(self._handle, data)
            if written != len(data):
                raise OSError(28, "the disk is full")
        except OSError:
            self._take_back()
            raise
        self._tail_bytes += len(data)

    def _take_back(self) -> None:
        try:
            if self._handle is not None:
                os.ftruncate(self._handle, self._tail_bytes)
        except OSError:
            pass  # readers skip what belongs to no whole block

    def _open_tail(self) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        handle = os.open(f"{self.path}{TAIL}", flags, 0o644)
        _lock(handle)
        return handle

    def _pack(self) -> None:
        """Write the tail's rows as few blocks to the ledger proper, and empty the tail. Raises `OSError`."""
        now, wall = self._clock.now_ns(), self._clock.wall_ns()
        found = [blocks.encode(Kind.META, _json(self._meta)), *self._anchors]
        found.append(blocks.encode(Kind.STEPS, rows.encode(self._written_rows, self._tail_rows)))
        if self._tail_events:
            body = {"first": self._written_events, "events": self._tail_events}
            found.append(blocks.encode(Kind.EVENTS, _json(body)))
        found.append(blocks.encode(Kind.LIFE, _LIFE.pack(wall, now)))
        append_whole(Path(f"{self.path}{LEDGER}"), b"".join(found))
        self._written_rows += len(self._tail_rows)
        self._written_events += len(self._tail_events)
        self._tail_rows, self._tail_events, self._anchors = [], [], []
        if self._handle is not None:
            os.ftruncate(self._handle, 0)
        self._tail_bytes = 0

    def _drop_tail(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)
        os.unlink(f"{self.path}{TAIL}")

    def _bound_waiting(self) -> None:
        over = len(self._rows) - MAX_WAITING
        if over > 0:
            del self._rows[:over]
            self.lost_rows += over
            self._unreported += over
        del self._events[: max(0, len(self._events) - MAX_WAITING)]

    def _failed(self, error: Exception) -> None:
        self.problem = f"{self.path.parent}: {getattr(error, 'strerror', None) or error}"
        self._bound_waiting()


def append_whole(path: Path, data: bytes) -> None:
    """Append to a file and have it on the disk, or leave the file as it was. Raises `OSError`."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        before = os.fstat(handle).st_size
        try:
            if os.write(handle, data) != len(data):
                raise OSError(28, "the disk is full")
            os.fsync(handle)
        except OSError:
            os.ftruncate(handle, before)
            raise
    finally:
        os.close(handle)


def _lock(handle: int) -> None:
    """Show that the writer is alive. File systems without locks do without."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        pass


def _json(value: object) -> bytes:
    return json.dumps(value, default=str, separators=(",", ":")).encode("utf-8", "replace")
