"""Packs what processes left that were killed: their tails hold a block per second, and a header for each."""

from __future__ import annotations

import contextlib
import json
import os
import struct
from pathlib import Path

from tpuprof.errors import TpuprofError
from tpuprof.ledger import blocks, rows
from tpuprof.ledger.blocks import Kind
from tpuprof.ledger.reader import Ledger, read_ledger
from tpuprof.ledger.rows import COLUMNS, Row
from tpuprof.ledger.writer import LEDGER, PACK_ROWS, TAIL
from tpuprof.run_folder import LEDGERS
from tpuprof.units import NS_PER_MS

_LIFE = struct.Struct("<qq")
# Clock readings that are kept although they are neither first nor last: those where the wall clock moved by this (ns).
_MOVED_NS = NS_PER_MS


def pack_dead(folder: Path, host: str, own: str) -> list[str]:
    """Pack the tails of this host's processes that are gone; names of those packed. `own` is left alone.

    A writer holds a lock on its tail while it lives. Where locks do not work, nothing is packed. Raises nothing.
    """
    packed = []
    for tail in sorted((folder / LEDGERS).glob(f"{host}-*{TAIL}")):
        path = tail.with_suffix("")
        with contextlib.suppress(OSError, ImportError, TpuprofError):
            if path.name != own and _pack(path):
                packed.append(path.name)
    return packed


def _pack(path: Path) -> bool:
    import fcntl

    handle = os.open(f"{path}{TAIL}", os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = read_ledger(path)
        if found.lost_bytes or found.missing_rows:
            return False  # what is damaged stays as it is, for whoever wants to look at it
        scratch = Path(f"{path}.packed")
        scratch.write_bytes(encoded(found))
        os.replace(scratch, f"{path}{LEDGER}")
        os.unlink(f"{path}{TAIL}")
    finally:
        os.close(handle)
    return True


def encoded(ledger: Ledger) -> bytes:
    """A ledger as few large blocks."""
    parts = [blocks.encode(Kind.META, json.dumps(ledger.meta).encode())]
    parts += [blocks.encode(Kind.LIFE, _LIFE.pack(*each)) for each in _readings(ledger)]
    table = [[int(value) for value in ledger.columns[name]] for name in COLUMNS]
    for first in range(0, ledger.steps, PACK_ROWS):
        some = [
            Row(*each) for each in zip(*(column[first : first + PACK_ROWS] for column in table), strict=True)
        ]
        parts.append(blocks.encode(Kind.STEPS, rows.encode(first, some)))
    parts.append(blocks.encode(Kind.EVENTS, json.dumps({"first": 0, "events": ledger.events}).encode()))
    return b"".join(parts)


def _readings(ledger: Ledger) -> list[tuple[int, int]]:
    kept: list[tuple[int, int]] = []
    for wall, clock in ledger.life:
        if not kept or abs((wall - clock) - (kept[-1][0] - kept[-1][1])) > _MOVED_NS:
            kept.append((wall, clock))
    return [*kept, *ledger.life[-1:]]
