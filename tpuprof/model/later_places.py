"""Work that comes seldom in a program without steps: where the training thread is after a recording by the clock.

Time in which it waits for the device is no work at a place: a read waits for all that was handed over before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tpuprof.model.host.samples import HostSamples
from tpuprof.model.long_later import FROM_SHARE, Before
from tpuprof.own_events import LOOK_WAITS
from tpuprof.records import record
from tpuprof.report.user_frames import user_functions
from tpuprof.units import format_share

# Looks from which they say something, in the recording and after it (count): five seconds of them after it.
LOOKS_FROM = 50
# Stretches at a place from which it comes again and again (count): an export at the end is one.
STRETCHES_FROM = 3
# A function by its name and file, or a line of it by a third part.
_Place = tuple[str, ...]
_FUNCTION = 2
# Share of the looks at a place from which one stretch is left out (share): it may be the end of the program.
MOST_IN_ONE = 0.5


@record(frozen=True)
class LaterPlace:
    """A place at which the thread is for a `share` of the looks after the recording, and never was in it.

    `stretches` is how often it came there. `place` is in words, `source` its line (`file:line`).
    """

    share: float
    stretches: int
    place: str
    source: str

    @property
    def held_by(self) -> int:
        """How many steps a capture needs to hold it (steps): 0, since no step was seen."""
        return 0

    @property
    def what(self) -> str:
        """`The training thread is in evaluate (t.py:9) for 30 % of the time after the capture, in 7 stretches`."""
        share = format_share(self.share)
        return (
            f"The training thread is {self.place} for {share} of the time after the capture, "
            f"in {self.stretches} stretches"
        )

    @property
    def text(self) -> str:
        """What the verdict says of it."""
        return (
            f" {self.what}, and never was while it was recorded. Mark steps (`tpuprof.step`), and record as many as "
            "hold one."
        )


def place_of(noted: Mapping[str, Any], samples: HostSamples | None) -> LaterPlace | None:
    """The same as `later_place`; None where the notes are damaged."""
    try:
        return later_place(noted, samples)
    except (KeyError, TypeError, ValueError, IndexError):
        return None


def later_place(noted: Mapping[str, Any], samples: HostSamples | None) -> LaterPlace | None:
    """The function, or the line of one that runs all the time, that most of such looks are at; None where none is."""
    of = int(noted["looks"])
    if samples is None or min(len(samples.seen), of) < LOOKS_FROM:
        return None
    before = Before(samples)
    stacks = [_places(str(each)) for each in noted["stacks"]]
    stretches = [
        (stacks[int(stack)], int(kind) == LOOK_WAITS, int(looks)) for stack, kind, looks in noted["stretches"]
    ]
    depths: dict[_Place, int] = {}
    for stack in stacks:
        for place, (depth, _) in stack.items():
            if not before(*place):
                depths[place] = max(depths.get(place, 0), depth)
    seen = [_seen(place, stretches) for place in depths]
    seen = [each for each in seen if each.share(of) >= FROM_SHARE and each.stretches >= STRETCHES_FROM]
    if not seen:
        return None
    # Of functions that call each other, and of a function's lines, the innermost that has most of it.
    most = MOST_IN_ONE * max(each.looks for each in seen)
    found = max(
        (each for each in seen if each.looks >= most), key=lambda each: (depths[each.place], -len(each.place))
    )
    name, path = found.place[:2]
    source = f"{path}:{found.line}"
    words = f"in {name} ({source})" if len(found.place) == _FUNCTION else f"at {source}"
    return LaterPlace(min(found.share(of), 1.0), found.stretches, words, source)


@record(frozen=True)
class _Seen:
    """Looks at a place, in how many stretches, how many the longest of these has, and the line seen most often."""

    place: _Place
    line: str
    looks: int
    stretches: int
    longest: int

    def share(self, of: int) -> float:
        """Share of all looks, without the longest stretch where that is most of them."""
        looks = self.looks - self.longest if self.longest > MOST_IN_ONE * self.looks else self.looks
        return looks / of


def _places(stack: str) -> dict[_Place, tuple[int, str]]:
    """The functions of a stack, and the lines that they are at, each with how deep it is and its line."""
    found: dict[_Place, tuple[int, str]] = {}
    for (name, path, _), (depth, line) in user_functions(reversed(stack.split("\n"))).items():
        found[name, path] = found[name, path, line] = depth, line
    return found


def _seen(place: _Place, stretches: list[tuple[dict[_Place, tuple[int, str]], bool, int]]) -> _Seen:
    lines: Counter[str] = Counter()
    lengths: list[int] = []
    inside = False
    for stack, waits, looks in stretches:
        if place not in stack:
            inside = False
            continue
        if not inside:
            lengths.append(0)
        inside = True
        if not waits:
            lengths[-1] += looks
            lines[stack[place][1]] += looks
    seen = [each for each in lengths if each]
    line = next(iter(lines.most_common(1)), ("0", 0))[0]
    return _Seen(place, line, sum(seen), len(seen), max(seen, default=0))
