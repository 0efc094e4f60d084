"""The chip of a host for which the others wait, from the waits of each."""

from __future__ import annotations

from collections.abc import Sequence

from tpuprof.report.sections import ChipWaitRow

# Share of what the other chips wait on average that each of them waits longer than the last one, from which that one is
# last alone: of several that come late together none is named. A judgement: half.
ALONE_FROM_SHARE = 0.5

# Share of what the chip that comes first waits that one chip must wait longer than another over all collectives, from
# which the same chips are late each time; below it they are late by turns. A judgement: half.
SAME_FROM_SHARE = 0.5


def by_host(rows: Sequence[ChipWaitRow]) -> list[list[ChipWaitRow]]:
    """The rows of each host."""
    groups: dict[str, list[ChipWaitRow]] = {}
    for row in rows:
        groups.setdefault(row.host, []).append(row)
    return list(groups.values())


def waited_in_collectives(rows: Sequence[ChipWaitRow]) -> float:
    """Time that all devices wait in collectives for the chip of their host that comes last, in all steps (ms)."""
    return sum(row.waited_ms_in_collectives for row in rows)


def last_to_collectives(rows: Sequence[ChipWaitRow]) -> ChipWaitRow | None:
    """The chip for which most is waited in collectives; None where no chip of that host is last alone."""
    group = max(by_host(rows), key=waited_in_collectives, default=[])
    ordered = sorted(group, key=lambda row: row.waited_ms_in_collectives)
    if len(ordered) < 2:
        return None
    last, others = ordered[0], ordered[1:]
    mean = waited_in_collectives(others) / len(others)
    ahead = others[0].waited_ms_in_collectives - last.waited_ms_in_collectives
    return last if mean > 0 and ahead >= ALONE_FROM_SHARE * mean else None


def spread(rows: Sequence[ChipWaitRow]) -> float:
    """What the chip of a host that waits longest waits longer than the one that waits least, in steps (ms)."""
    times = [row.all_ms_in_steps for row in rows]
    return max(times) - min(times)


def late_by_turns(rows: Sequence[ChipWaitRow]) -> bool:
    """Whether now one chip of a host comes last to collectives and now another: over all of them they wait alike."""
    first = max(row.first_ms_in_collectives for row in rows)
    return first > 0 and spread(rows) < SAME_FROM_SHARE * first
