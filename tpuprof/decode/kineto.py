"""Puts a trace of torch.profiler (Kineto) into the words of the profiler's own export: host threads, GPUs, streams.

Kineto names a process by its program, and says in each event's `cat` what it is. Times are microseconds since 1970 or
since a base that the file names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

# What autograd's engine writes of each node, and how its threads are called elsewhere: Kineto numbers them.
_BACKWARD = "autograd::engine::evaluate_function"
AUTOGRAD_THREAD = "pt_autograd"
# The format of such a trace.
KINETO = "kineto"
# What runs on a GPU's stream, and what of it is a copy.
_ON_DEVICE = {"kernel": "Compute", "gpu_memcpy": "Memcpy", "gpu_memset": "Memset"}
# Spans that overlay others, or that say only how long the profiler ran.
_LEFT_OUT = frozenset({"gpu_user_annotation", "Trace", "overhead"})
_HOST = "/host:CPU"
_MARKS = frozenset({"cpu_op", "user_annotation", "python_function", "cuda_runtime", *_ON_DEVICE})
# Events looked at to tell a trace of Kineto (events), and bytes.
_LOOKED_AT = 2_000
_LOOKED_AT_BYTES = 1 << 18
# `train.py(12): main`, and `<built-in method acquire of _thread.lock object at 0x7f...>`.
_PYTHON = re.compile(r"(.+)\((\d+)\): (.+)$", re.DOTALL)
_BUILT_IN = re.compile(r"<built-in (?:function|method) (\w+)")
# `Memcpy DtoH (Device -> Pinned)`.
_COPY = re.compile(r"Memcpy (\w+)")
_IN_TEXT = re.compile(rb'"(?:deviceProperties|cpu_op|user_annotation|python_function|cuda_runtime)"')


def looks_like_kineto(data: bytes | bytearray | memoryview) -> bool:
    """Whether the bytes of a Chrome-JSON document begin as torch.profiler writes them."""
    return bool(_IN_TEXT.search(bytes(data[:_LOOKED_AT_BYTES])))


def is_kineto(document: Any, events: Sequence[Any]) -> bool:
    """Whether a Chrome-JSON document was written by torch.profiler."""
    if isinstance(document, dict) and "deviceProperties" in document:
        return True
    head = (event for event in events[:_LOOKED_AT] if isinstance(event, dict))
    return any(event.get("ph") == "X" and _category(event) in _MARKS for event in head)


def normalised(
    spans: list[dict[str, Any]],
) -> tuple[list[dict[str, Any]], dict[Any, str], dict[tuple[Any, Any], str]]:
    """The spans with their times from the first, and new process and thread names.

    A GPU's streams get a process of their own each, whatever numbers the file gives them.
    """
    kept = [event for event in spans if _category(event) not in _LEFT_OUT]
    directions = _directions(kept)
    first = min((event["ts"] for event in kept), default=0)
    process: dict[Any, str] = {}
    thread: dict[tuple[Any, Any], str] = {}
    found = []
    for event in kept:
        given = event.get("args")
        args: dict[str, Any] = given if isinstance(given, dict) else {}
        kind = _ON_DEVICE.get(str(event.get("cat")))
        name = str(event.get("name", ""))
        if kind is None:
            pid, tid = event.get("pid"), event.get("tid")
            process[pid] = _HOST
            # Python's main thread has the number of its process, and runs the backward pass of CPU tensors itself.
            if name.startswith(_BACKWARD) and pid != tid:
                thread[pid, tid] = AUTOGRAD_THREAD
            name = _host_name(event, name, directions.get(_correlation(args)))
        else:
            pid = f"gpu {args.get('device', event.get('pid'))}"
            tid = f"{args.get('stream', event.get('tid'))}"
            process[pid] = f"/device:GPU:{args.get('device', event.get('pid'))}"
            thread[pid, tid] = f"Stream #{tid}({kind})"
        if "correlation" in args:
            args = {**args, "correlation_id": args["correlation"]}
        times = {"ts": event["ts"] - first, "pid": pid, "tid": tid}
        found.append({**event, **times, "name": name, "args": args})
    return found, process, thread


def _directions(events: Sequence[dict[str, Any]]) -> dict[Any, str]:
    """By correlation which way a copy on the GPU goes: `HtoD`, `DtoH`, `DtoD`."""
    found = {}
    for event in events:
        args = event.get("args")
        copy = _COPY.match(str(event.get("name", ""))) if event.get("cat") == "gpu_memcpy" else None
        correlation = _correlation(args) if isinstance(args, dict) else None
        if copy and correlation is not None:
            found[correlation] = copy.group(1)
    return found


def _category(event: dict[str, Any]) -> str:
    """An event's category; a file that somebody changed may hold anything there."""
    category = event.get("cat")
    return category if isinstance(category, str) else ""


def _correlation(args: dict[str, Any]) -> int | str | None:
    """What joins a launch with its work on the GPU, None where there is none."""
    found = args.get("correlation")
    return found if isinstance(found, int | str) else None


def _host_name(event: dict[str, Any], name: str, direction: str | None) -> str:
    """What an event of the host is called: Python functions as JAX's tracer calls them, copies with their direction."""
    if event.get("cat") == "python_function":
        function = _PYTHON.match(name)
        if function:
            return f"${function.group(1)}:{function.group(2)} {function.group(3)}"
        built_in = _BUILT_IN.match(name)
        return f"${built_in.group(1)}" if built_in else name
    return f"{name} {direction}" if direction and "emcpy" in name else name
