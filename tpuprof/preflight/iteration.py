"""Which graphs make one training iteration, by what they do: without torch, for the script's process and for ours.

An event is one graph that the script would have run. An event that updates weights is an update. One iteration is
the shortest run of events that came twice in a row, ends with an update, and holds an update by every optimizer. Both
must be whole: of a policy that plays games of different lengths no run between two updates is the end of the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

# Events of one iteration: 64 micro-batches, each with a graph of its own, are more than has been seen.
LONGEST = 128
# Updates after which an optimizer that has not stepped yet is no longer waited for.
PATIENCE = 24
# Updates by new graphs in a row after which the script is one that compiles again in each step.
CHANGING = 6
# Updates without a repeated iteration after which the search ends.
MOST_UPDATES = 64
# How often in a row an iteration must have come where its graphs had come another number of times before: two games of
# a policy may have one length by chance.
OFTEN = 4
# Events after which a script without any update is not a training script: longer than most evaluations before training.
WITHOUT_UPDATE = 400


@dataclass(frozen=True)
class Event:
    """One graph run: the graph's key, whether it updates weights, and the optimizers that stepped for it."""

    key: str
    update: bool
    optimizers: frozenset[int] = frozenset()


@dataclass
class Search:
    """The events so far. `optimizers` numbers those that hold weights on the device."""

    events: list[Event] = field(default_factory=list)
    optimizers: frozenset[int] = frozenset()

    @property
    def updates(self) -> list[Event]:
        """The events that update weights."""
        return [each for each in self.events if each.update]

    def period(self, patient: bool = True) -> range:
        """Where in `events` the last iteration is that came twice in a row; empty where none has.

        With `patient` every optimizer must have stepped in it, until `PATIENCE` updates are seen.
        """
        waits = patient and len(self.updates) < PATIENCE
        return self._period(waits)

    def chosen(self) -> range:
        """Where the iteration is that is reported: one in which every optimizer stepped goes before a shorter one."""
        return self._period(True) or self._period(False)

    def _period(self, all_step: bool) -> range:
        end = self._end()
        updates = [
            index for index in range(end - 1, max(-1, end - LONGEST - 2), -1) if self.events[index].update
        ]
        for last_before in updates[1:]:
            length = end - 1 - last_before
            if not self._came(2, end, length) or (all_step and not self._by_all(range(end - length, end))):
                continue
            if self._varied(end, length) and not self._came(OFTEN, end, length):
                continue
            return range(end - length, end)
        return range(0)

    def _end(self) -> int:
        """One behind the last update, 0 without one. What came after it belongs to the next iteration."""
        return next(
            (index + 1 for index in range(len(self.events) - 1, -1, -1) if self.events[index].update), 0
        )

    def _came(self, times: int, end: int, length: int) -> bool:
        """Whether the `length` events up to `end` came so many times in a row, and began there."""
        start = end - times * length
        if start < 0:
            return False
        graphs = [(each.key, each.update) for each in self.events[start:end]]
        if graphs != graphs[:length] * times:
            return False
        before = self.events[start - 1] if start else None
        return before is None or before.update or (before.key, False) not in graphs

    def _varied(self, end: int, length: int) -> bool:
        """Whether the graphs up to an update of this iteration had come before it another number of times.

        What came up to the first update may hold an evaluation.
        """
        own = _up_to_updates(self.events[end - length : end])
        earlier = _up_to_updates(self.events[: end - 2 * length])[1:]
        return any(each not in own and any(set(each) == set(one) for one in own) for each in earlier)

    def _by_all(self, places: range) -> bool:
        return self.optimizers <= frozenset().union(*(self.events[each].optimizers for each in places))

    def finished(self) -> bool:
        """Whether more events would say no more."""
        updates = self.updates
        if self.period():
            return True
        last = {each.key for each in updates[-CHANGING:]}
        changing = len(last) == CHANGING and last.isdisjoint(each.key for each in updates[:-CHANGING])
        return (
            changing or len(updates) >= MOST_UPDATES or (not updates and len(self.events) >= WITHOUT_UPDATE)
        )

    def why_unsteady(self) -> str:
        """Why nothing repeated: new graphs in each step, or the same ones another number of times."""
        updates = [each.key for each in self.updates]
        late = updates[-max(2, len(updates) // 2) :]
        if len(set(late)) == len(late):
            return "each step compiles again"
        parts = _up_to_updates(self.events)
        # What came up to the first update may hold an evaluation.
        others = [len(each) - 1 for each in (parts[1:] if len(parts) > 2 else parts)]
        counts = f"between two updates {min(others)} to {max(others)} other graphs run"
        if min(others) == max(others):
            counts = "graphs come in another order each time"
        return f"{counts}; the last of these iterations is shown"

    def iteration(self) -> list[str]:
        """The keys of one iteration in order.

        Where nothing repeated: the events after the second last update up to the last. Empty without an update.
        """
        found = self.chosen()
        if found:
            return [self.events[each].key for each in found]
        places = [index for index, each in enumerate(self.events) if each.update]
        if not places:
            return []
        first = places[-2] + 1 if len(places) > 1 else places[-1]
        return [each.key for each in self.events[first : places[-1] + 1]]


def _up_to_updates(events: Sequence[Event]) -> list[list[str]]:
    """The keys of events in parts that each end with an update; what comes after the last one is left out."""
    parts: list[list[str]] = [[]]
    for each in events:
        parts[-1].append(each.key)
        if each.update:
            parts.append([])
    return parts[:-1]


def read_events(entries: Sequence[dict[str, Any]]) -> list[Event]:
    """Events as the manifest holds them."""
    return [Event(each["key"], each["update"], frozenset(each["optimizers"])) for each in entries]


def event_entry(event: Event) -> dict[str, Any]:
    """An event for the manifest."""
    return {"key": event.key, "update": event.update, "optimizers": sorted(event.optimizers)}
