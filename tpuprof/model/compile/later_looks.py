"""Compiles that looks at the training thread see after a recording by the clock, where no step was seen meanwhile.

Such a recording is a second or two in which little compiles. What a program of many shapes does all the time may be in
none of it, and no step counts its compiles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from tpuprof.model.long_later import FROM_SHARE
from tpuprof.model.telemetry import compiles_before
from tpuprof.own_events import JAX_COMPILES, LOOK_COMPILES
from tpuprof.records import record
from tpuprof.report.labels import source_of
from tpuprof.report.user_frames import frames_of_users
from tpuprof.units import counted, format_share

if TYPE_CHECKING:
    from tpuprof.model.host_run import HostRun

# Looks from which they say something (count): two seconds of them.
LOOKS_FROM = 20
# Stretches of compiling from which it comes again and again (count), with compiles of the same line before the capture.
# One has to begin in the second half of the looks: the first evaluation compiles several functions, and then none.
OCCASIONS_FROM, LATE = 3, 0.5


@record(frozen=True)
class CompilingLooks:
    """The thread compiles for a `share` of the looks, in so many `stretches`, mostly at the line `source`."""

    share: float
    stretches: int
    source: str

    @property
    def what(self) -> str:
        """`the training thread compiled 6 times at train.py:65, for 55 % of that time`, which is after the capture."""
        at = f" at {self.source}" if self.source else ""
        times, share = counted(self.stretches, "time"), format_share(self.share)
        return f"the training thread compiled {times}{at}, for {share} of that time"


def most_compiling(hosts: Iterable[HostRun]) -> CompilingLooks | None:
    """What looks at training threads see of compiles, of the host that compiles most; None where that is little."""
    found = [
        compiling_looks(each.looks, partial(compiles_before, each.records)) for each in hosts if each.looks
    ]
    return max((each for each in found if each is not None), key=lambda each: each.share, default=None)


def compiling_looks(noted: Mapping[str, Any], before: Callable[[str], int]) -> CompilingLooks | None:
    """What such looks (`capture.later_looks`) see of compiles; None where that is little, or the notes are damaged.

    `before` says how often a line (its innermost frame) compiled before the capture.
    """
    try:
        return _compiling(noted, before)
    except (KeyError, TypeError, ValueError, IndexError):
        return None


def _compiling(noted: Mapping[str, Any], before: Callable[[str], int]) -> CompilingLooks | None:
    of = int(noted["looks"])
    if of < LOOKS_FROM:
        return None
    stacks = [str(each).split("\n") for each in noted["stacks"]]
    compiles = [any(JAX_COMPILES.search(frame) for frame in frames) for frames in stacks]
    lines: Counter[str] = Counter()
    begins, at, inside = [], 0, False
    for stack, kind, looks in noted["stretches"]:
        does = int(kind) == LOOK_COMPILES or compiles[int(stack)]
        if does:
            users = frames_of_users(stacks[int(stack)])
            lines[users[0] if users else ""] += int(looks)
            begins += [] if inside else [at]
        inside = does
        at += int(looks)
    share = min(lines.total() / of, 1.0)
    if share < FROM_SHARE or begins[-1] < LATE * of:
        return None
    ((line, _),) = lines.most_common(1)
    if len(begins) + before(line) < OCCASIONS_FROM:
        return None
    return CompilingLooks(share, len(begins), source_of(line) if line else "")
