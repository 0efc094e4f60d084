"""Lists the files below a folder within bounds, so that a home folder or a whole disk cannot hang a command."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from tpuprof.errors import Code, TpuprofError
from tpuprof.run_folder import PROFILE_SUFFIXES

# Most files and folders that are listed below one folder (names). The run folder of a pod with 1,024 hosts has about
# 10,000; a disk lists 200,000 in one or two seconds. A home folder, and a folder of datasets, often has more.
MAX_LISTED = 200_000
# Longest that is searched (seconds). A mounted bucket lists some thousand names a second: a folder that takes longer is
# none that a profiler wrote to.
MAX_SECONDS = 30.0
# Kinds of file systems that show the kernel. They hold no profile, and some of their files are never read to the end:
# `/proc/kmsg` waits for the kernel's next message.
_OF_THE_KERNEL = frozenset({"proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs"})
_MOUNTS = Path("/proc/self/mountinfo")
_RUN_FOLDER = "Give the run folder itself: the one that holds `plugins/profile`."


class Search:
    """A search below one folder, which may take `MAX_SECONDS` (seconds)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Folders below that cannot be listed, each with what the system says.
        self.unlisted: list[tuple[Path, str]] = []
        self._until = time.monotonic() + MAX_SECONDS

    @property
    def is_late(self) -> bool:
        """Whether the search has taken as long as it may."""
        return time.monotonic() > self._until

    def files(self, not_into: tuple[str, ...] = (), not_named: tuple[str, ...] = ()) -> list[Path]:
        """What lies below: files, pipes, links, and folders that are named as a profile.

        Hidden folders, those of the names `not_into`, and what shows the kernel are not gone into. Files whose name
        ends as one of `not_named` are left out. Raises `TpuprofError` where there is too much.
        """
        found: list[Path] = []
        listed = 0
        kernel = self._kernel_below()
        for root, folders, names in os.walk(self.folder, onerror=self._note):
            listed += len(folders) + len(names)
            folders[:] = sorted(
                name
                for name in folders
                if not name.startswith(".")
                and name not in not_into
                and os.path.join(root, name) not in kernel
            )
            here = [*names, *(name for name in folders if name.endswith(PROFILE_SUFFIXES))]
            found += [Path(root, name) for name in sorted(here) if not name.endswith(not_named)]
            if listed > MAX_LISTED or self.is_late:
                raise self.too_large(f"{listed:,} files and folders were listed, as far as {root}", found)
        return found

    def _note(self, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # that one was removed meanwhile
            self.unlisted.append((Path(error.filename), error.strerror or str(error)))

    def _kernel_below(self) -> set[str]:
        """Folders below at which the kernel shows itself, as the walk names them."""
        here = os.path.abspath(self.folder)
        below = [each for each in _kernel_mounts() if os.path.commonpath((here, each)) == here != each]
        return {os.path.join(self.folder, os.path.relpath(each, here)) for each in below}

    def too_large(self, looked_at: str, found: Iterable[Path]) -> TpuprofError:
        """The error of a folder below which there is too much to look at; names the newest profile among `found`."""
        limit = f"a search ends at {MAX_LISTED:,} names or after {MAX_SECONDS:.0f} s"
        profiles = [each for each in found if each.name.endswith(PROFILE_SUFFIXES)]
        seen = "none of them is called a profile"
        if profiles:
            newest = max(profiles, key=lambda each: (_modified(each), str(each)))
            seen = f"{len(profiles):,} are called profiles, the newest is {newest}"
        return TpuprofError(
            Code.TOO_MANY_FILES, f"{self.folder}: {looked_at}; {seen} ({limit}).", _RUN_FOLDER
        )


def files_below(folder: Path) -> list[Path]:
    """All files below a folder. Raises `TpuprofError` where there are too many."""
    return [each for each in Search(folder).files() if os.path.isfile(each)]


def _kernel_mounts() -> Iterator[str]:
    """Folders at which the kernel shows itself; none where it does not say."""
    try:
        lines = _MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        mount, _, source = line.partition(" - ")
        if source.split(" ")[0] in _OF_THE_KERNEL and len(mount.split(" ")) > 4:
            # Spaces in a path are written as `\040`.
            yield mount.split(" ")[4].replace("\\040", " ")


def _modified(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0
