"""Which graphs make one training iteration, by what they do: without torch, for the script's process and for ours.

An event is one graph that the script would have run. An event that updates weights is an update. One iteration is
the shortest run of events that came twice in a row, holds an update, and an update by every optimizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

# Events of one iteration: 64 micro-batches, each with a graph of its own, are more than has been seen.
LONGEST = 128
# Updates after which an optimizer that has not stepped yet is no longer waited for.
PATIENCE = 24
# Updates by different graphs in a row after which the script is one that compiles again in each step.
CHANGING = 6
# Updates without a repeated iteration after which the search ends.
MOST_UPDATES = 64
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

    def period(self, patient: bool = True) -> int:
        """Events of one iteration at the end of the list, 0 where none has come twice in a row.

        With `patient` every optimizer must have stepped in it, until `PATIENCE` updates are seen.
        """
        waits = patient and len(self.updates) < PATIENCE
        return self._period(waits)

    def chosen(self) -> int:
        """Events of the iteration that is reported: one in which every optimizer stepped goes before a shorter one."""
        return self._period(True) or self._period(False)

    def _period(self, all_step: bool) -> int:
        keys = [each.key for each in self.events]
        for length in range(1, min(LONGEST, len(keys) // 2) + 1):
            if keys[-length:] != keys[-2 * length : -length]:
                continue
            found = self.events[-length:]
            if not any(each.update for each in found):
                continue
            if all_step and not self.optimizers <= frozenset().union(*(each.optimizers for each in found)):
                continue
            return length
        return 0

    def finished(self) -> bool:
        """Whether more events would say no more."""
        updates = self.updates
        if self.period():
            return True
        last = [each.key for each in updates[-CHANGING:]]
        changing = len(last) == CHANGING and len(set(last)) == CHANGING
        return (
            changing or len(updates) >= MOST_UPDATES or (not updates and len(self.events) >= WITHOUT_UPDATE)
        )

    def iteration(self) -> list[str]:
        """The keys of one iteration in order.

        Where nothing repeated: the events after the second last update up to the last. Empty without an update.
        """
        length = self.chosen()
        if length:
            return [each.key for each in self.events[-length:]]
        places = [index for index, each in enumerate(self.events) if each.update]
        if not places:
            return []
        first = places[-2] + 1 if len(places) > 1 else places[-1]
        return [each.key for each in self.events[first : places[-1] + 1]]


def read_events(entries: Sequence[dict[str, Any]]) -> list[Event]:
    """Events as the manifest holds them."""
    return [Event(each["key"], each["update"], frozenset(each["optimizers"])) for each in entries]


def event_entry(event: Event) -> dict[str, Any]:
    """An event for the manifest."""
    return {"key": event.key, "update": event.update, "optimizers": sorted(event.optimizers)}
