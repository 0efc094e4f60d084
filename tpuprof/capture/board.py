"""A folder that all hosts see, on which they leave each other short messages.

A message is a file. Its name says all, or it is settled: of several processes that write it, the first one wins, and
all read the same text.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path

from tpuprof.instrument.state import pass_on
from tpuprof.run_folder import POD

# What names of messages begin with; nothing else in the folder is ours.
READY, STEP, ANSWER, DECISION, SCRATCH = "ready", "step", "answer", "decision", "scratch"
_KINDS = (READY, STEP, ANSWER, DECISION, SCRATCH)


class Board:
    """Messages in one folder. All methods raise `OSError` where the folder cannot be used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> set[str]:
        """Names of all messages, by one look into the folder."""
        return {name for name in os.listdir(self.folder) if name.partition(".")[0] in _KINDS}

    def post(self, name: str) -> None:
        """Leave a message that is its name."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / name).touch()

    def settle(self, name: str, text: str) -> str:
        """Leave a text unless another process has; the text that is there now."""
        place = self.folder / name
        # A reader never sees half of it.
        scratch = self.folder / f"{SCRATCH}.{uuid.uuid4().hex}"
        scratch.write_text(text, "utf-8")
        try:
            os.link(scratch, place)
        except FileExistsError as error:
            pass_on(error)
        except OSError as error:
            pass_on(error)
            # A file system without hard links: the file itself is taken at once, and written then.
            try:
                descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    file.write(text)
            except FileExistsError as another:
                pass_on(another)
        finally:
            scratch.unlink(missing_ok=True)
        return self.read(name)

    def read(self, name: str) -> str:
        """The text of a message that was settled; empty while it is being written."""
        return (self.folder / name).read_text("utf-8")


def folder_of(run: Path, name: str) -> Path:
    """Where the processes of the capture `name` agree."""
    return run / POD / name


def forget(folder: Path) -> None:
    """Remove what was agreed there, which a later capture of that name would take for its own."""
    with contextlib.suppress(OSError):
        for name in Board(folder).names():
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()
