"""Runs a command that cannot change the user's files: `python -I -S barrier.py FOLDER open|closed COMMAND...`.

The best the system allows is used, and FOLDER/barrier.json says which:

- `overlay`: a private mount namespace in which every file system is covered by a layer in memory. Each write
  succeeds, is seen by later reads, and vanishes at the end. It holds for C++, Rust and child processes too.
- `landlock`: the kernel refuses writes outside FOLDER and /dev. The network is closed to Python's own calls only
  (the hook in the script's process).
- `none`: neither is allowed here. The command does not run, unless `none` was asked for.

Uses the standard library alone, since it runs before anything else in the script's interpreter.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path

REPORT = "barrier.json"
VARIABLE = "TPUPROF_PREFLIGHT_BARRIER"
MODES = ("overlay", "landlock", "none")
STATUS = 5  # exit status where no barrier can be raised
_LIBC = ctypes.CDLL(None, use_errno=True)
# From linux/sched.h, sys/mount.h, sys/prctl.h and linux/landlock.h.
_NEW_MOUNTS, _NEW_USER, _NEW_NETWORK = 0x00020000, 0x10000000, 0x40000000
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 32, 4096, 16384, 1 << 18
_PARENT_DEATH_SIGNAL, _NO_NEW_PRIVILEGES = 1, 38
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT, _LANDLOCK_VERSION = 444, 445, 446, 1
# Write accesses by the first version of Landlock that knows them: writing, removing and making, then moves
# between folders, then truncation.
_LANDLOCK_ACCESS = {1: 1 << 1 | sum(1 << bit for bit in range(4, 13)), 2: 1 << 13, 3: 1 << 14}
_SET_INTERFACE_FLAGS, _INTERFACE_UP = 0x8914, 0x1 | 0x40
# File systems that are no place for a user's files: they are passed on as they are.
_KERNEL_KINDS = frozenset(
    {
        "proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "mqueue", "debugfs", "tracefs", "securityfs",
        "bpf", "pstore", "configfs", "binfmt_misc", "hugetlbfs", "autofs", "fusectl", "nsfs", "efivarfs",
        "rpc_pipefs", "selinuxfs",
    }
)  # fmt: skip


def main(arguments: list[str]) -> None:
    """Raise the barrier, then become the command."""
    folder, network, command = Path(arguments[0]), arguments[1], arguments[2:]
    end_with_parent()
    wanted = os.environ.get(VARIABLE, MODES[0])
    mode, closed, why = "none", False, "not asked for"
    if wanted == "overlay":
        closed, why = _overlay(folder, network == "closed")
        mode = "none" if why else "overlay"
    if mode == "none" and wanted != "none" and _landlock(folder):
        mode = "landlock"
        os.environ["TMPDIR"] = str(folder / "tmp")
        (folder / "tmp").mkdir()
    report = {"files": mode, "network": network, "network_by_kernel": closed, "why_no_overlay": why}
    (folder / REPORT).write_text(json.dumps(report), "utf-8")
    if mode == "none" and wanted != "none":
        sys.exit(STATUS)
    os.environ[VARIABLE] = mode
    # Signals that a shell made this process ignore must work in the script.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execve(command[0], command, os.environ)


def end_with_parent() -> None:
    """Have the system end this process when its parent ends, however that happens (Linux)."""
    if hasattr(_LIBC, "prctl"):
        _LIBC.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def _overlay(folder: Path, close_network: bool) -> tuple[bool, str]:
    """Enter a namespace where all writes go to memory: (whether the network is closed, why it failed or empty)."""
    here = os.getcwd()
    try:
        closed = _new_namespaces(close_network)
        _mount("none", "/", None, _RECURSIVE | _PRIVATE)
        base = folder / "layers"
        base.mkdir()
        _mount("tmpfs", str(base), "tmpfs", 0, "mode=755")
        (base / "root").mkdir()
        _Cover(base).cover("/")
        inside = f"{base}/root{folder}"
        _mount(str(folder), inside, None, _BIND)
        os.chroot(base / "root")
        os.chdir(here)
    except OSError as error:
        return False, str(error)
    return closed, ""


def _new_namespaces(close_network: bool) -> bool:
    """Mounts of one's own, and a network of one's own where asked; as a user's own namespace where root is needed."""
    flags = _NEW_MOUNTS | (_NEW_NETWORK if close_network else 0)
    user, group = os.getuid(), os.getgid()
    if _LIBC.unshare(flags):
        _check(_LIBC.unshare(flags | _NEW_USER), "unshare")
        Path("/proc/self/setgroups").write_text("deny", "ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", "ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", "ascii")
    if close_network:
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            fcntl.ioctl(control, _SET_INTERFACE_FLAGS, struct.pack("16sh14x", b"lo", _INTERFACE_UP))
    return close_network


class _Cover:
    """Rebuilds the tree of mounts below `base`/root, each covered by a layer of `base`."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = f"{base}/root"
        self.mounts = _mount_points()
        self.layers = 0

    def cover(self, path: str) -> None:
        """Make `path` appear in the new root, writable without effect, with all that is mounted below it."""
        below = [each for each in self.mounts if each != path and each.startswith(path.rstrip("/") + "/")]
        direct = [each for each in below if not any(_inside(each, other) for other in below if other != each)]
        if self.mounts.get(path) in _KERNEL_KINDS:
            _mount(path, self.root + path, None, _BIND | _RECURSIVE)
            if "/dev/shm" in below:
                self.cover("/dev/shm")
        elif os.path.isdir(path) and self._layer(path):
            for each in direct:
                if os.path.exists(self.root + each):
                    self.cover(each)
        elif below and os.path.isdir(path):
            self._children(path)
        else:
            self._read_only(path)

    def _layer(self, path: str) -> bool:
        layer = self.base / str(self.layers)
        self.layers += 1
        for part in ("up", "work"):
            (layer / part).mkdir(parents=True)
        shape = os.stat(path)
        os.chmod(layer / "up", shape.st_mode & 0o7777)
        with suppress(OSError):
            os.chown(layer / "up", shape.st_uid, shape.st_gid)
        lower = path.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")
        options = f"lowerdir={lower},upperdir={layer}/up,workdir={layer}/work"
        for extra in ("", ",userxattr"):
            with suppress(OSError):
                _mount("overlay", self.root + path, "overlay", 0, options + extra)
                return True
        return False

    def _children(self, path: str) -> None:
        """Where a folder cannot be covered because of what is mounted below it, cover its children one by one."""
        for entry in os.scandir(path):
            inner = f"{path.rstrip('/')}/{entry.name}"
            target = self.root + inner
            if entry.is_symlink():
                os.symlink(os.readlink(inner), target)
            elif entry.is_dir():
                os.mkdir(target)
                with suppress(PermissionError):
                    os.chmod(target, entry.stat().st_mode & 0o7777)
                if os.access(inner, os.R_OK | os.X_OK):
                    self.cover(inner)
            elif entry.is_file():
                Path(target).touch()
                self._read_only(inner)

    def _read_only(self, path: str) -> None:
        _mount(path, self.root + path, None, _BIND | _RECURSIVE)
        _mount("none", self.root + path, None, _BIND | _REMOUNT | _READ_ONLY)


def _mount_points() -> dict[str, str]:
    """Kind of file system by mount point; of several at one place the last, which hides the others."""
    found = {}
    for line in Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines():
        left, _, right = line.partition(" - ")
        point = left.split()[4]
        for code, mark in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
            point = point.replace(code, mark)
        found[point] = right.split()[0]
    return found


def _inside(path: str, other: str) -> bool:
    return path.startswith(other.rstrip("/") + "/")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    encoded = kind.encode() if kind else None
    data = os.fsencode(options) if options else None
    status = _LIBC.mount(os.fsencode(source), os.fsencode(target), encoded, ctypes.c_ulong(flags), data)
    _check(status, f"mount on {target}")


def _check(status: int, what: str) -> None:
    if status < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _landlock(folder: Path) -> bool:
    """Have the kernel refuse every write outside `folder` and /dev; whether it does."""
    version = _LIBC.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), _LANDLOCK_VERSION)
    if version < 1:
        return False
    access = sum(bits for first, bits in _LANDLOCK_ACCESS.items() if first <= version)
    rules = struct.pack("Q", access)
    handle = _LIBC.syscall(_LANDLOCK_CREATE, rules, ctypes.c_size_t(len(rules)), 0)
    if handle < 0:
        return False
    for place in (str(folder), "/dev", "/proc"):
        with suppress(OSError):
            opened = os.open(place, os.O_PATH | os.O_CLOEXEC)
            rule = struct.pack("=Qi", access, opened)
            _LIBC.syscall(_LANDLOCK_ADD, handle, 1, rule, 0)
            os.close(opened)
    _LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    return int(_LIBC.syscall(_LANDLOCK_RESTRICT, handle, 0)) == 0


if __name__ == "__main__":
    main(sys.argv[1:])
