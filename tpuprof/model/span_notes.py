"""Notes that people make on spans of a run: in its folder where tpuprof wrote one, else in the user's state folder.

A profile is never written to, nor is a folder that another tool made.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from tpuprof.errors import Code, TpuprofError
from tpuprof.json_notes import read_json
from tpuprof.report.span_note import SpanNote
from tpuprof.run_folder import RUN_INFO, SPAN_NOTES, SPAN_NOTES_SCHEMA
from tpuprof.units import PS_PER_NS

if TYPE_CHECKING:
    from tpuprof.decode.find import Found

# Notes of a run, and characters of each, at most: a note is for people, and a ticket has to hold them all.
MOST_NOTES = 200
LONGEST_NOTE = 2_000
# Characters of the names that a note repeats: of its lane and its event.
_LONGEST_NAME = 300


def notes_file(found: Found) -> Path:
    """Where the notes of a run are kept."""
    if found.run_folder is not None and (found.run_folder / RUN_INFO).is_file():
        return found.run_folder / SPAN_NOTES
    first = next(iter(found.files.values()))
    if notes_beside(first).is_file():
        return notes_beside(first)
    import platformdirs

    name = hashlib.blake2b(os.fsencode(first.resolve()), digest_size=16).hexdigest()
    return Path(platformdirs.user_state_dir("tpuprof")) / "notes" / f"{name}.json"


def notes_beside(profile: Path) -> Path:
    """Where the notes on a profile are kept that goes with them: where that file is there, as beside an upload."""
    return profile.with_name(f"{profile.name}.{SPAN_NOTES.name}")


def read_span_notes(found: Found) -> list[SpanNote]:
    """The notes of a run, in order of time; what is none of ours is passed over."""
    try:
        told = read_json(notes_file(found))
        rows = told["notes"] if told["schema"] == SPAN_NOTES_SCHEMA else []
        notes = [each for each in map(_note, rows[:MOST_NOTES]) if each is not None]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return sorted(notes, key=lambda each: (each.host, each.start_ns, each.written_at))


def write_span_notes(found: Found, notes: list[SpanNote]) -> list[SpanNote]:
    """Keep these notes in place of those that are there, cut to their bounds; returns them.

    Raises `TpuprofError` (`output-failed`) where they cannot be kept.
    """
    path = notes_file(found)
    kept = [_cut(each) for each in notes[:MOST_NOTES]]
    data = {"schema": SPAN_NOTES_SCHEMA, "profile": str(next(iter(found.files.values())).resolve())}
    text = json.dumps({**data, "notes": [vars(each) for each in kept]}, indent=1, ensure_ascii=False)
    # Whoever reads meanwhile sees the old notes or the new ones.
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(f"{text}\n", "utf-8", "replace")
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise TpuprofError(
            Code.OUTPUT_FAILED,
            f"{path}: notes cannot be kept ({error.strerror or error}).",
            "Check the disk and the permissions.",
        ) from error
    return kept


def _cut(note: SpanNote) -> SpanNote:
    return replace(
        note,
        lane=note.lane[:_LONGEST_NAME],
        name=note.name[:_LONGEST_NAME],
        text=note.text.strip()[:LONGEST_NOTE],
    )


def _note(row: Any) -> SpanNote | None:
    """A note as it was written, None of anything else: whoever made the file may mean harm."""
    texts = ("host", "lane", "name", "text", "written_at")
    if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in texts):
        return None
    start, duration = row.get("start_ns"), row.get("duration_ns")
    if not _is_time(start) or not _is_time(duration):
        return None
    return _cut(SpanNote(**{name: row[name] for name in texts}, start_ns=start, duration_ns=duration))


def _is_time(value: Any) -> TypeGuard[int]:
    """Whether it is a time (ns) whose picoseconds a column can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 // PS_PER_NS
