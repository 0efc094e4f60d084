"""One iteration among the runs of programs: which buffers have names, what updates weights, what waits in memory.

Runs inside the script's process, and needs nothing of it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tpuprof.preflight.pjrt_taps import Buffer, Log, Run


class Window:
    """One iteration among the runs: from `first` up to `last`."""

    def __init__(self, log: Log, first: int, last: int) -> None:
        self.log, self.first, self.last = log, first, last
        self._there = [
            each for each in log.buffers if each.born < last and (each.died is None or each.died > first)
        ]
        self._names: dict[int, str] = {}
        self._made: dict[tuple[int, int], str] = {}

    def name(self, names: dict[int, str]) -> None:
        """Take names of buffers as they are at the end; the same place of another iteration has the same name."""
        self._names = names
        for number, name in names.items():
            place = self._place(number)
            if place is not None:
                self._made[place] = name
        self._follow_in_place()

    def name_of(self, number: int) -> str:
        """A buffer's name, empty where no module or optimizer knows it."""
        if number in self._names:
            return self._names[number]
        place = self._place(number)
        return self._made.get(place, "") if place is not None else ""

    def _place(self, number: int) -> tuple[int, int] | None:
        """The run of this iteration that makes a buffer, and which of its results it is; of another one the same run.

        None for what was uploaded, and where that other iteration ran another program there. Where ops are
        deferred, the last ones run when their results are read: behind the iteration.
        """
        made, length = self.log.buffers[number].made, self.last - self.first
        if made is None:
            return None
        run = self.first + (made[0] - self.first) % length
        return (run, made[1]) if self.log.runs[run].program == self.log.runs[made[0]].program else None

    def _follow_in_place(self) -> None:
        """Give the results of ops in place the names of what they took: buffers that were freed with the run.

        Where weights and their moments of one shape were freed together, it is not known which became which.
        """
        for run in self.log.runs[self.first : self.last]:
            freed: dict[tuple[int, ...], list[str]] = {}
            for each in (self.log.buffers[number] for number in run.taken):
                name = self.name_of(each.number)
                if name and each.died is not None and each.died <= self._after(run):
                    freed.setdefault(each.shape, []).append(name)
            for each in (self.log.buffers[number] for number in run.made):
                names = freed.get(each.shape, [])
                if names and len({_role(name) for name in names}) == 1 and each.made is not None:
                    name = names.pop(0)
                    self._made.setdefault(each.made, name)

    def _after(self, run: Run) -> int:
        made = self.log.buffers[run.made[0]].made if run.made else None
        return made[0] + 1 if made is not None else -1

    def updates(self, weights: set[int]) -> Counter[int]:
        """How many of these weights' buffers each program made in this iteration, or in its last ops behind it."""
        found: Counter[int] = Counter()
        for each in (self.log.buffers[number] for number in weights):
            if each.made is None or each.made[0] < self.first:
                continue
            place = self._place(each.number)
            if place is None:
                place = next(
                    (spot for spot in reversed(self._results()) if self._shape(spot) == each.shape), None
                )
            if place is not None:
                found[self.log.runs[place[0]].program] += 1
        return found

    def _results(self) -> list[tuple[int, int]]:
        return [
            (run, output)
            for run in range(self.first, self.last)
            for output in range(len(self.log.runs[run].made))
        ]

    def _shape(self, place: tuple[int, int]) -> tuple[int, ...]:
        return self.log.buffers[self.log.runs[place[0]].made[place[1]]].shape

    def facts(self, updates: Counter[int]) -> dict[int, dict[str, Any]]:
        """What the manifest says of each program: names and what else is in memory, in the run where that is most."""
        beside: dict[int, tuple[int, int, list[Buffer]]] = {}
        for place in range(self.first, self.last):
            program = self.log.runs[place].program
            waiting = self._waiting(place)
            size = sum(each.bytes for each in waiting)
            if program not in beside or size > beside[program][0]:
                beside[program] = size, place, waiting
        return {
            program: {
                "updates": updates[program],
                "resident": self._entries(waiting),
                "parameter_names": [self.name_of(each) for each in self.log.runs[place].taken],
                "output_names": [self.name_of(each) for each in self.log.runs[place].made],
            }
            for program, (_, place, waiting) in beside.items()
        }

    def _waiting(self, place: int) -> list[Buffer]:
        """Buffers that are there while a run takes place, and are not its own."""
        run = self.log.runs[place]
        own = {*run.taken, *run.made}
        return [
            each
            for each in self._there
            if each.born <= place and (each.died is None or each.died > place) and each.number not in own
        ]

    def _entries(self, buffers: list[Buffer]) -> list[dict[str, Any]]:
        entries: dict[Any, dict[str, Any]] = {}
        for each in buffers:
            name = self.name_of(each.number)
            entry = entries.setdefault(
                name or (each.shape, each.dtype),
                {"name": name, "shape": list(each.shape), "dtype": each.dtype, "bytes": 0, "count": 0},
            )
            entry["bytes"] += each.bytes
            entry["count"] += 1
        return sorted(entries.values(), key=lambda entry: -int(entry["bytes"]))


def _role(name: str) -> str:
    """`exp_avg` of `exp_avg of fc.weight`; empty for a weight itself."""
    return name.rpartition(" of ")[0]
