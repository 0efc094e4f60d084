"""The workers of a Cloud TPU VM, by Google's own tool `gcloud`: how many there are, and how each is reached."""

from __future__ import annotations

import json
import re
import shlex
import subprocess

from tpuprof.errors import Code, TpuprofError

# How long gcloud may take to describe a TPU (s).
DESCRIBE_SECONDS = 120.0
# Lines of an error of gcloud that are shown: "Error parsing [tpu]", and in the third line that it has no project.
_REASON_LINES = 3
# What a name or a zone may be; anything that begins with a dash would be an option of gcloud.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]*")
_HINT = "Check it with: gcloud compute tpus tpu-vm describe NAME --zone ZONE"


def workers(name: str, zone: str = "") -> list[str]:
    """Numbers of a TPU's workers. An empty zone is that of gcloud's configuration.

    Raises `TpuprofError` (`usage`, `capture-cannot-connect`).
    """
    command = ["gcloud", "compute", "tpus", "tpu-vm", "describe", *_place(name, zone), "--format=json"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=DESCRIBE_SECONDS, check=False
        )
    except OSError as error:
        raise TpuprofError(
            Code.CAPTURE_CONNECT,
            f"gcloud cannot be started ({error.strerror}).",
            "Install the Google Cloud CLI, or list the hosts with --pod.",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise TpuprofError(
            Code.CAPTURE_CONNECT, f"gcloud did not describe {name} in {DESCRIBE_SECONDS:.0f} s.", _HINT
        ) from error
    if done.returncode:
        raise TpuprofError(
            Code.CAPTURE_CONNECT,
            f"gcloud cannot describe {name}: {_reason(done.stderr)}.",
            _HINT,
        )
    return [str(worker) for worker in range(_count(name, done.stdout))]


def _reason(stderr: bytes) -> str:
    """What gcloud says is wrong. It begins with ERROR; ways to fix it come below, in lines of their own."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    first = next((row for row, line in enumerate(lines) if line.startswith("ERROR")), max(len(lines) - 1, 0))
    return " ".join(lines[first : first + _REASON_LINES])[:300].rstrip(".: ") or "no reason"


def _count(name: str, described: bytes) -> int:
    try:
        endpoints = json.loads(described)["networkEndpoints"]
        count = len(endpoints) if isinstance(endpoints, list) else 0
    except (ValueError, KeyError, TypeError):
        count = 0
    if not count:
        raise TpuprofError(Code.CAPTURE_CONNECT, f"gcloud names no workers of {name}.", _HINT)
    return count


def reach(name: str, zone: str = "") -> str:
    """The command that runs another one on a worker, for `start_all`."""
    place = shlex.join(_place(name, zone))
    return f"gcloud compute tpus tpu-vm ssh {place} --quiet --worker={{host}} --command={{command}}"


def _place(name: str, zone: str) -> list[str]:
    for what, value in (("--tpu-name", name), ("--zone", zone)):
        if value and not _NAME.fullmatch(value):
            raise TpuprofError(Code.USAGE, f"{what}: {value!r} is no name.", "Give the name alone.")
    return [name, *([f"--zone={zone}"] if zone else [])]
