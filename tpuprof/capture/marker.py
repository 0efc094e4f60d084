"""The private folder of a capture, and how a process finds it whose environment was cleared: by its ancestors.

Beside the folder stands a note under a fixed path, named after the process id of `tpuprof capture`. A Python
process whose environment does not name the folder looks for an ancestor with such a note. Only notes of its own
user count. This module is imported when Python starts: it imports `os` and nothing else at its top.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

# Ancestors looked at (processes): deeper trees than this are loops of shells.
_MAX_ANCESTORS = 64


def notes_folder() -> str:
    """Where the notes of this user's captures are. Not TMPDIR: that is cleared with the environment."""
    return f"/tmp/tpuprof-captures-{os.geteuid()}"


def create() -> Path:
    """Make the private folder and the note; returns the folder."""
    import tempfile
    from pathlib import Path

    folder = Path(tempfile.mkdtemp(prefix="tpuprof-capture-"))
    try:
        os.makedirs(notes_folder(), mode=0o700, exist_ok=True)
        if _is_ours(notes_folder()):
            _drop_old_notes()
            started = _parent_and_start(os.getpid())[1]
            Path(notes_folder(), str(os.getpid())).write_text(f"{started}\n{folder}\n", "utf-8")
    except OSError:
        pass  # without the note the environment alone leads to the folder
    return folder


def remove(folder: Path, *, keep: bool) -> None:
    """Remove the note, and the folder unless processes that still run need it."""
    import contextlib
    import shutil

    with contextlib.suppress(OSError):
        os.unlink(os.path.join(notes_folder(), str(os.getpid())))
        os.rmdir(notes_folder())  # fails while another capture runs
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)


def folder_of_ancestor() -> str | None:
    """The private folder of the capture that this process descends from, None where there is none."""
    try:
        if not _is_ours(notes_folder()):
            return None
        notes = set(os.listdir(notes_folder()))
        pid = os.getpid()
        for _ in range(_MAX_ANCESTORS if notes else 0):
            pid = _parent_and_start(pid)[0]
            if pid <= 1:
                return None
            if str(pid) in notes:
                return _read_note(pid)
    except (OSError, ValueError, IndexError):
        pass
    return None


def _read_note(pid: int) -> str | None:
    with open(os.path.join(notes_folder(), str(pid)), encoding="utf-8") as file:
        started, folder = file.read().split("\n")[:2]
    # A process id may have been used again since; its start time tells.
    return folder if started == str(_parent_and_start(pid)[1]) and _is_ours(folder) else None


def _drop_old_notes() -> None:
    for name in os.listdir(notes_folder()):
        if name.isdigit() and not os.path.exists(f"/proc/{name}"):
            os.unlink(os.path.join(notes_folder(), name))


def _is_ours(path: str) -> bool:
    """Whether only this user can have written there. Raises `OSError` where it does not exist."""
    found = os.lstat(path)
    return found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _parent_and_start(pid: int) -> tuple[int, int]:
    """Process id of the parent, and when the process started (clock ticks since boot)."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[1]), int(fields[19])
