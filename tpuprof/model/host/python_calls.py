"""What Python did where no op tells: the functions that a profiler's Python tracer wrote, in the place of samples.

Events are `$file:line function` for functions, at the line where each begins, and `$function` for built-in ones.
"""

from __future__ import annotations

import re
import sys

import numpy as np

from tpuprof.model.host.interval_pieces import KINDS, TRACING
from tpuprof.model.host.samples import HostSamples
from tpuprof.model.host.stacks import IO, LOCK, SLEEP, Stack
from tpuprof.model.host.vocabulary import Vocabulary
from tpuprof.model.intervals import Int64, Spans, covered, flatten, inherit
from tpuprof.model.timeline import Track
from tpuprof.own_events import is_generated
from tpuprof.units import counted

# How often the tracer notes a call from which it slows the host (ps): one in so much time. JAX takes 0.8 µs for one
# (jax 0.7, measured), so that rarer ones make less than a hundredth of the time.
SLOWS_EVERY_PS = 100_000_000
# Calls whose stacks are put together; of more, those that take longest (calls).
MAX_CALLS = 20_000
# Frames of a stack that are kept, the innermost ones (frames).
MAX_FRAMES = 64
# What is in no row of `KINDS`.
_UNCLEAR = -1
_FUNCTION = re.compile(r"\$(.+):(\d+) (.+)$", re.DOTALL)
# Built-in functions that wait or read; names that strings and dicts have too (`join`, `get`) are none.
_BUILT_IN = {
    **dict.fromkeys(("sleep",), SLEEP),
    **dict.fromkeys(("acquire", "select", "poll", "waitpid", "epoll_wait"), LOCK),
    **dict.fromkeys(
        ("write", "read", "readinto", "flush", "fsync", "recv", "recv_into", "send", "sendall"), IO
    ),
}
_PACKAGES = re.compile(r".*[/\\](?:site|dist)-packages[/\\]")


def python_calls(driver: Track, rest: Spans, vocabulary: Vocabulary) -> HostSamples | None:
    """Pieces of the training thread's time in Python functions, as far as they meet `rest`; None without any.

    What the framework's own functions do is on the way to an op. Of those in files of an unclear name nothing is said.
    """
    names = driver.plane.events.names
    traced = np.array([*(name.startswith("$") for name in names), False], np.bool_)[driver.name_row]
    if not traced.any() or not len(rest.start):
        return None
    # The innermost function at each event, and the one around each function.
    call = inherit(np.where(traced, np.arange(len(driver)), -1), driver.parent)
    above = np.where(driver.parent >= 0, call[driver.parent], -1)
    segments = flatten(driver.start, driver.end, driver.parent)
    inside = covered(rest, segments.start, segments.end)
    row = call[segments.event]
    kept = np.flatnonzero((inside > 0) & (row >= 0))
    kept = np.sort(kept[np.argsort(-inside[kept], kind="stable")[:MAX_CALLS]])
    if not len(kept):
        return None
    stacks: dict[tuple[str, ...], int] = {}
    kinds: list[int] = []
    found: list[Stack] = []
    number = np.empty(len(kept), np.int64)
    for place, at in enumerate(row[kept].tolist()):
        chain = _chain(at, above, driver, names)
        if chain not in stacks:
            stacks[chain] = len(found)
            found.append(_stack(chain, vocabulary))
            kinds.append(_kind(chain, vocabulary))
        number[place] = stacks[chain]
    kind = np.array(kinds, np.int64)[number]
    known = kind != _UNCLEAR
    kept, kind, number = kept[known], kind[known], number[known]
    return HostSamples(segments.start[kept], segments.end[kept], kind, number, found) if len(kept) else None


def tracer_note(driver: Track | None, vocabulary: Vocabulary) -> list[str]:
    """A warning where the training thread was slowed by a tracer of its Python functions."""
    if driver is None or not vocabulary.python_calls:
        return []
    own = [row for row, name in enumerate(driver.plane.events.names) if name.startswith("$")]
    count = int(np.isin(driver.name_row, own).sum())
    if not count or int(driver.end.max() - driver.start.min()) > count * SLOWS_EVERY_PS:
        return []
    return [
        f"the profiler traced {counted(count, 'call')} of Python functions, which slows the host: without it the "
        "device idles less for the host than is said here"
    ]


def _chain(at: int, above: Int64, driver: Track, names: list[str]) -> tuple[str, ...]:
    """Names of a call and those around it, the outermost first."""
    chain: list[str] = []
    while at >= 0 and len(chain) < MAX_FRAMES:
        chain.append(names[int(driver.name_row[at])])
        at = int(above[at])
    return tuple(reversed(chain))


def _stack(chain: tuple[str, ...], vocabulary: Vocabulary) -> Stack:
    frames, source, user_call = [], "", ""
    for name in chain:
        function = _FUNCTION.match(name)
        if function is None:
            frames.append(name.removeprefix("$"))
            continue
        path, line, called = function.groups()
        frames.append(f"{called} ({path}:{line})")
        if _is_users(path, vocabulary):
            source, user_call = f"{path}:{line}", f"in {called}"
    return Stack(tuple(frames), f"{_last(chain[-1])}()", source, user_call)


def _kind(chain: tuple[str, ...], vocabulary: Vocabulary) -> int:
    """What the innermost function does, as a row of `KINDS`, or `_UNCLEAR`.

    It is a built-in one that blocks, the framework's on the way to an op, or other Python.
    """
    innermost = chain[-1]
    if _FUNCTION.match(innermost) is None and _last(innermost) in _BUILT_IN:
        return KINDS.index(_BUILT_IN[_last(innermost)])
    function = next((found for name in reversed(chain) if (found := _FUNCTION.match(name))), None)
    path = _PACKAGES.sub("", function.group(1)) if function else ""
    if vocabulary.unclear_files.matches(path):
        return _UNCLEAR
    return KINDS.index(TRACING if vocabulary.own_files.matches(path) else "python")


def _last(name: str) -> str:
    return name.rpartition(" ")[2].removeprefix("$")


def _is_users(path: str, vocabulary: Vocabulary) -> bool:
    """Whether a file is surely neither the framework's nor of Python's own library."""
    own = _PACKAGES.sub("", path)
    if vocabulary.own_files.matches(own) or vocabulary.unclear_files.matches(own) or is_generated(path):
        return False
    return own.replace("\\", "/").partition("/")[0].removesuffix(".py") not in sys.stdlib_module_names
