"""Where in the run a finding can be seen, for rules whose evidence is a sum over the run."""

from __future__ import annotations

from tpuprof.model.host_run import HostRun
from tpuprof.parts import meaning_of, said_of, word_of_category
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import FAILED, Outcome, Price
from tpuprof.timeline.periods import longest
from tpuprof.units import PS_PER_NS, ps_to_ms

# Stretches pointed at: enough to see whether one is like the other (rows).
SHOWN = 3


class Places:
    """The longest stretches of parts of the breakdown, each found when first asked for."""

    def __init__(self, hosts: list[HostRun]) -> None:
        self._hosts = [host for host in hosts if len(host.steps)]
        self._found: dict[str, list[tuple[int, int, HostRun]]] = {}

    def of(self, outcome: Outcome, category: str) -> list[Evidence]:
        """The outcome's evidence, and where it points nowhere the longest stretches of what it holds up.

        That is the part that its fix removes most of, else what rules of its category hold up.
        """
        word = word_of_category(category)
        if (
            outcome.status != FAILED
            or word is None
            or any(each.start_ns is not None for each in outcome.evidence)
        ):
            return outcome.evidence
        part = self._removed(outcome.price) or word.part
        words = said_of(
            word.stretch if part == word.part else meaning_of(part),
            sees_device=any(host.devices for host in self._hosts),
        )
        return [*outcome.evidence, *(_evidence(words, *each) for each in self._longest(part))]

    def _removed(self, price: Price | None) -> str:
        """The part of the breakdown that a fix removes most of at best; empty where its replay removes no part."""
        if price is None or price.most is None:
            return ""
        left = {**price.most.host, **price.most.device}
        gone = {name: (1 - factor) * self._total(name) for name, factor in left.items()}
        best = max(gone, key=lambda name: gone[name], default="")
        return best if gone.get(best) else ""

    def _total(self, name: str) -> int:
        """Time of a part in the steps of all hosts (ps); 0 of what the breakdown lacks, as waits that a replay has."""
        return sum(
            int(host.breakdown.parts[name].sum()) for host in self._hosts if name in host.breakdown.parts
        )

    def _longest(self, name: str) -> list[tuple[int, int, HostRun]]:
        """(length, start, host) of the longest stretches of a part on all hosts."""
        if name not in self._found:
            spans = [
                (end - start, start, host)
                for host in self._hosts
                for start, end in longest(host, name, SHOWN)
            ]
            self._found[name] = sorted(spans, key=lambda each: -each[0])[:SHOWN]
        return self._found[name]


def _evidence(words: str, length: int, start: int, host: HostRun) -> Evidence:
    row = int(host.steps.start.searchsorted(start, "right")) - 1
    return Evidence(
        f"a long stretch: {words}",
        ps_to_ms(length),
        "ms",
        host=host.name,
        step=int(host.steps.number[row]),
        start_ns=start // PS_PER_NS,
        duration_ms=ps_to_ms(length),
    )
