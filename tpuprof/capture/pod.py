"""Starts the same capture on several hosts at once, over ssh or whatever reaches them, and names those that fail."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tpuprof.errors import Code, TpuprofError

# Says which of how many hosts a `tpuprof capture` is: "3/64".
VARIABLE = "TPUPROF_POD"
# Says how the list names this host: several may call themselves alike.
NAME_VARIABLE = "TPUPROF_POD_HOST"
SSH = "ssh -o BatchMode=yes -o ConnectTimeout=15 {host} {command}"
# After the first host has ended, the others get this long (s): hosts of one job end together.
GRACE_SECONDS = 300.0


@dataclass
class Member:
    """One host: its name, how its capture ended (None: it did not), and its last line."""

    name: str
    process: subprocess.Popen[bytes] | None = None
    status: int | None = None
    last: str = ""


def read_hosts(path: Path) -> list[str]:
    """Hosts of a file, one per line; what follows a # is a remark. Raises `TpuprofError`."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TpuprofError(
            Code.NOT_FOUND, f"{path}: the list of hosts cannot be read.", "Give a file with a host per line."
        ) from error
    hosts = [line.partition("#")[0].strip() for line in lines]
    hosts = [host for host in hosts if host]
    # A host that begins with a dash would be an option of ssh.
    if not hosts or any(host.startswith("-") or len(host.split()) > 1 for host in hosts):
        raise TpuprofError(Code.USAGE, f"{path}: it is no list of hosts.", "Write one host per line.")
    if len(set(hosts)) < len(hosts):
        raise TpuprofError(Code.USAGE, f"{path}: a host stands there twice.", "Name each host once.")
    return hosts


def place_of(environment: str) -> tuple[int, int]:
    """Which of how many hosts this is, by the variable; (0, 1) where it is not part of a pod."""
    member, _, count = environment.partition("/")
    if member.isdigit() and count.isdigit() and int(member) < int(count):
        return int(member), int(count)
    return 0, 1


def start_all(
    hosts: list[str], ssh: str, command: list[str], grace: float = GRACE_SECONDS, label: str = ""
) -> list[Member]:
    """Run a command on every host in the folder we are in, and wait for all; their lines go to stderr.

    `label` stands before each host's name in what is shown. A host that does not end within `grace` seconds after the
    first that ended well, or after all that ever said a word, is given up. Raises `TpuprofError` (`usage`).
    """
    template = shlex.split(ssh)
    if not any("{command}" in word for word in template):
        template += ["{command}"] if any("{host}" in word for word in template) else ["{host}", "{command}"]
    members = [Member(label + host) for host in hosts]
    for row, (member, host) in enumerate(zip(members, hosts, strict=True)):
        member.process = _start(template, host, f"{row}/{len(hosts)}", command)
    readers = [
        threading.Thread(target=_show, args=(member, len(hosts) > 1), daemon=True) for member in members
    ]
    for reader in readers:
        reader.start()
    _wait(members, grace)
    for reader in readers:
        reader.join(timeout=5)
    return members


def _start(template: list[str], host: str, place: str, command: list[str]) -> subprocess.Popen[bytes]:
    which = f"{VARIABLE}={place} {NAME_VARIABLE}={shlex.quote(host)}"
    line = f"cd {shlex.quote(os.getcwd())} && {which} exec {shlex.join(command)}"
    words = [word.replace("{host}", host).replace("{command}", line) for word in template]
    try:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise TpuprofError(
            Code.USAGE, f"{words[0]}: cannot be started ({error.strerror}).", "Check --ssh."
        ) from error


def _show(member: Member, named: bool) -> None:
    assert member.process is not None
    stream: IO[bytes] | None = member.process.stdout
    for line in stream or ():
        text = line.decode("utf-8", "replace").rstrip()
        member.last = text or member.last
        print(f"[{member.name}] {text}" if named else text, file=sys.stderr, flush=True)


def _wait(members: list[Member], grace: float) -> None:
    until: float | None = None
    try:
        while any(member.status is None for member in members):
            for member in members:
                assert member.process is not None
                if member.status is None:
                    member.status = member.process.poll()
            if not _only_silent_ones_are_left(members):
                until = None  # one that was silent has begun to speak
            elif until is None:
                until = time.monotonic() + grace
            if until is not None and time.monotonic() > until:
                break
            time.sleep(0.1)
    finally:
        for member in members:
            if member.process is not None and member.process.poll() is None:
                member.process.terminate()


def _only_silent_ones_are_left(members: list[Member]) -> bool:
    """Whether a host has captured, or all have ended but those that never said a word: no job is running there.

    One that failed ends nothing: the others may train for days.
    """
    if any(member.status == 0 for member in members):
        return True
    return any(member.status is not None for member in members) and not any(
        member.status is None and member.last for member in members
    )


def problems(members: list[Member]) -> list[TpuprofError]:
    """What to say of each host that did not capture."""
    return [_problem(member) for member in members if member.status != 0]


def _problem(member: Member) -> TpuprofError:
    if member.status is None:
        return TpuprofError(
            Code.CAPTURE_MISSING_HOST, f"{member.name}: it did not answer.", "Look at that host."
        )
    said = f" Its last words: {member.last[:200]}" if member.last else ""
    return TpuprofError(
        Code.CAPTURE_MISSING_HOST, f"{member.name}: its capture ended with status {member.status}.{said}"
    )
