"""Reads ledgers: what is whole of one process's files, and all processes of a folder as attempts of jobs."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from tpuprof.errors import Code, TpuprofError
from tpuprof.json_notes import parse_json, read_bytes
from tpuprof.ledger import blocks, rows
from tpuprof.ledger.blocks import Block, Kind
from tpuprof.ledger.writer import LEDGER, TAIL
from tpuprof.run_folder import LEDGERS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LIFE = struct.Struct("<qq")
# The latest wall clock that is believed (ns since 1970): the year 2116. Sums with times of rows stay within 64 bits.
LATEST_WALL_NS = 2**62


@dataclass
class Ledger:
    """What one process left. Times of rows and events are by its steady clock; `wall_ns` turns them into the epoch's.

    `missing_rows` were written and are in no whole block; `lost_bytes` of its files belong to none.
    """

    name: str
    meta: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    life: list[tuple[int, int]] = field(default_factory=list)
    missing_rows: int = 0
    lost_bytes: int = 0

    @property
    def steps(self) -> int:
        """How many rows there are."""
        return len(self.columns["step"])

    @property
    def ended(self) -> str:
        """How the process ended, by its own words; empty where it was killed or still runs."""
        found = [str(each.get("how", "")) for each in self.events if each["kind"] == "end"]
        return found[-1] if found else ""

    @property
    def started_ns(self) -> int:
        """When the process started, by its clock."""
        known = self.meta.get("started_ns")
        return known if _is_time(known) else self._first_ns()

    @property
    def last_ns(self) -> int:
        """The last sign of life, by its clock."""
        times = [clock for _, clock in self.life] + [int(each["at_ns"]) for each in self.events]
        if self.steps:
            times.append(int(self.columns["start_ns"][-1] + self.columns["duration_ns"][-1]))
        return max(times, default=self.started_ns)

    def wall_ns(self, clock_ns: int) -> int:
        """Nanoseconds since the epoch of a time by the process's clock, by the nearest reading of both before it."""
        if not self.life:
            return clock_ns
        before = [each for each in self.life if each[1] <= clock_ns] or self.life[:1]
        wall, clock = before[-1]
        return wall + clock_ns - clock

    def _first_ns(self) -> int:
        return min((clock for _, clock in self.life), default=0)


def read_ledger(path: Path) -> Ledger:
    """Read the ledger whose files are `path` with `.ledger` and `.tail` after it. Damage is skipped and counted."""
    found = Ledger(path.name)
    parts: list[dict[str, NDArray[np.int64]]] = []
    counts = {"row": 0, "event": 0}
    for suffix in (LEDGER, TAIL):
        try:
            whole, lost = blocks.decode(read_bytes(Path(f"{path}{suffix}")))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise TpuprofError(
                Code.UNREADABLE, f"{path}{suffix}: {error.strerror or error}.", "Check its permissions."
            ) from error
        found.lost_bytes += lost
        for block in whole:
            _take(found, block, parts, counts)
    found.columns = _joined(parts)
    found.life.sort(key=lambda each: each[1])
    return found


def _take(
    found: Ledger, block: Block, parts: list[dict[str, NDArray[np.int64]]], counts: dict[str, int]
) -> None:
    """Add one block to what was read; one that is damaged within counts as lost."""
    try:
        if block.kind == Kind.STEPS:
            first, columns = rows.decode(block.payload)
            again = counts["row"] - first
            count = len(columns["step"])
            found.missing_rows += max(0, -again)
            if again < count:
                parts.append({name: column[max(0, again) :] for name, column in columns.items()})
                counts["row"] = first + count
        elif block.kind == Kind.EVENTS:
            body = parse_json(block.payload)
            again = max(0, counts["event"] - int(body["first"]))
            found.events += [each for each in body["events"][again:] if _is_event(each)]
            counts["event"] = max(counts["event"], int(body["first"]) + len(body["events"]))
        elif block.kind == Kind.META:
            found.meta |= dict(parse_json(block.payload))
        elif block.kind == Kind.LIFE:
            wall, clock = _LIFE.unpack(block.payload)
            if abs(wall) > LATEST_WALL_NS or not _is_time(clock):
                raise ValueError("a clock cannot read that")
            found.life.append((wall, clock))
    except (ValueError, KeyError, TypeError, struct.error):
        found.lost_bytes += len(block.payload)


def _is_event(each: Any) -> bool:
    """Whether a part of a block is something that happened: of a kind, at times that clocks can read."""
    if not isinstance(each, dict) or not isinstance(each.get("kind"), str) or not _is_time(each.get("at_ns")):
        return False
    return each.get("until_ns") is None or _is_time(each["until_ns"])


def _is_time(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and abs(value) <= rows.LARGEST


def _joined(parts: list[dict[str, NDArray[np.int64]]]) -> dict[str, NDArray[np.int64]]:
    import numpy as np

    empty = np.empty(0, np.int64)
    return {name: np.concatenate([part[name] for part in parts]) if parts else empty for name in rows.COLUMNS}


def ledger_paths(folder: Path) -> list[Path]:
    """Paths of all ledgers of a folder, without suffix. Raises `TpuprofError` where there are none."""
    names = set()
    where = folder / LEDGERS
    if not folder.exists():
        raise TpuprofError(Code.NOT_FOUND, f"{folder}: no such file or folder.", "Check the path.")
    if where.is_dir():
        names = {
            each.name.removesuffix(each.suffix) for each in where.iterdir() if each.suffix in (LEDGER, TAIL)
        }
    if not names:
        raise TpuprofError(
            Code.NO_LEDGER,
            f"{folder}: there is no ledger in it.",
            "Record one with `tpuprof watch -o FOLDER -- python train.py`.",
        )
    return [where / name for name in sorted(names)]


def read_folder(folder: Path) -> list[Ledger]:
    """All ledgers of a folder, in the order in which their processes started."""
    found = [read_ledger(path) for path in ledger_paths(folder)]
    return sorted(found, key=lambda each: each.wall_ns(each.started_ns))
