"""What a trace without a device plane tells of the device: reads of one number wait for work that is not finished.

Four bytes take no time that counts, and `synchronize` copies nothing. What the training thread waits for beyond that is
work that it handed over before, of the device or of the thread that hands programs to it, and that work takes as long
where nothing is read.
"""

from __future__ import annotations

import numpy as np

from tpuprof.model.host.blocking_waits import waits_alone
from tpuprof.model.host.vocabulary import Vocabulary
from tpuprof.model.intervals import Int64, Spans, covered, intersect, merge, subtract, union
from tpuprof.model.median import median
from tpuprof.model.steps import Steps
from tpuprof.model.timeline import Host, Track, by_plane

# The named event of a read of one number.
NUMBER_READ = "number_read"
# What a number's way to the host takes at most, the thread's waking up included (ps). Such reads take 0.2 ms on the CPU
# plugin where no work is left, and some milliseconds where other programs have the CPUs. A judgement, high on purpose:
# what is below it proves no work.
NUMBER_TAKES_PS = 10_000_000_000
# What handing one program over takes at most, while the device takes it (ps). It took 0.01 to 3.4 ms on the CPU plugin;
# calls of 25 to 280 ms there waited for the program before, or ran their own. A judgement.
HANDS_OVER_PS = 5_000_000_000
# Share of what is handed over, to which steps hold next to nothing of it (share): their own time says nothing of how
# long a step takes then. A judgement.
ELSEWHERE_TO_SHARE = 0.1
# Time for which other steps wait for work, as a share of the steps' own, from which that belongs to them (share): what
# is worth naming in a step. Of 16 steps of 13 ms another one held 120 ms, and steps after the capture took 22.
WAITS_FROM_SHARE = 0.1
# What a step that waits does beside, over what the others do, up to which it does no more than they (ratio): steps vary
# by a half. A judgement.
USUAL_TO = 1.5


def unfinished_work(
    host: Host, driver: Track | None, vocabulary: Vocabulary, steps: Steps, compiling: Spans
) -> tuple[Int64, Int64]:
    """By step: how long the device worked at least, and how long programs were handed over to it (ps).

    Zeros where no read waits long enough to tell. The time in which a program is handed over while a read waits is not
    the device's, unless the call takes so long that it waits for the device itself. Compiles count for neither.
    """
    nothing = np.zeros(len(steps), np.int64)
    if driver is None or not vocabulary.eager or not len(steps):
        return nothing, nothing
    waits = subtract(_beyond(waits_for_work(driver, vocabulary), NUMBER_TAKES_PS), compiling)
    if not len(waits.start):
        return nothing, nothing
    handing = subtract(_handing_over(host, driver, vocabulary, HANDS_OVER_PS), compiling)
    device = covered(subtract(waits, intersect(waits, handing)), steps.start, steps.end)
    return device, covered(handing, steps.start, steps.end)


def waited_at_once(unfinished: Int64, feeding: Int64, walls: Int64) -> int:
    """The longest wait of one step for work that steps before it handed over (ps); the first two as above, by step.

    0 where that step does more than others beside its wait: an evaluation, say, hands over itself what it waits for.
    """
    if len(walls) < 2 or not unfinished.any():
        return 0
    row = int(np.argmax(unfinished))
    usual = median(np.delete(walls - unfinished, row))
    waited = min(int(unfinished[row] + feeding[row]), int(walls[row]))
    # The read's own way is in neither.
    own = int(walls[row]) - waited - NUMBER_TAKES_PS
    return waited if own <= USUAL_TO * usual else 0


def own_waits(driver: Track | None, vocabulary: Vocabulary, steps: Steps) -> Int64:
    """By step: how long reads wait for work that the step hands over beyond what the others do (ps).

    The first read of a step waits for all that was handed over before, so later ones wait for the step's own work. Of
    the first one's wait that work is a share: a step has calls on the training thread for all that it hands over, so
    twice as many calls as in the usual step stand for one step more. Work before the capture counts for none.
    """
    found = np.zeros(len(steps), np.int64)
    if driver is None or not len(steps) or not vocabulary.eager:
        return found
    waits = waits_for_work(driver, vocabulary)
    row = np.searchsorted(steps.start, waits.start, "right") - 1
    inside = (row >= 0) & (waits.start < steps.end[np.maximum(row, 0)])
    row, lengths = row[inside], (waits.end - waits.start)[inside]
    until = waits.end[inside]
    begins = np.sort(driver.start)
    calls = np.searchsorted(begins, steps.end) - np.searchsorted(begins, steps.start)
    quiet = np.ones(len(steps), np.bool_)
    quiet[row] = False
    usual = max(float(median(calls[quiet] if quiet.any() else calls)), 1.0)
    last = -1
    for each in sorted(set(row.tolist())):
        of_step = np.flatnonzero(row == each)
        first, before = of_step[0], until[of_step[0]]
        made = float(np.searchsorted(begins, before) - np.searchsorted(begins, steps.start[each]))
        extra = max(made / usual - 1.0, 0.0)
        found[each] = int(lengths[of_step[1:]].sum()) + round(
            int(lengths[first]) * extra / (each - last + extra)
        )
        last = each
    return found


def waits_for_work(driver: Track, vocabulary: Vocabulary) -> Spans:
    """When the training thread reads one number, or waits for the device and reads nothing."""
    return merge(_named(driver, vocabulary), waits_alone(driver))


def feeding_share(
    host: Host, driver: Track | None, vocabulary: Vocabulary, steps: Steps, compiling: Spans
) -> float:
    """Share of the middle step in which another thread hands programs over, compiles left out; 0 where none does."""
    if driver is None or not vocabulary.eager or not len(steps):
        return 0.0
    handing = subtract(_handing_over(host, driver, vocabulary), compiling)
    return float(np.median(covered(handing, steps.start, steps.end) / np.maximum(steps.wall_ps, 1)))


def work_is_elsewhere(
    host: Host, driver: Track | None, vocabulary: Vocabulary, steps: Steps, left: Steps
) -> bool:
    """Whether the steps that are left hold next to nothing of what is handed over in all of them.

    A host that runs ahead hands nothing over in its steps while programs compile: one step waits for all of it.
    """
    if driver is None or not vocabulary.eager:
        return False
    handing = _handing_over(host, driver, vocabulary)
    whole, part = (int(covered(handing, each.start, each.end).sum()) for each in (steps, left))
    return part < ELSEWHERE_TO_SHARE * whole


def waits_elsewhere(
    driver: Track | None, vocabulary: Vocabulary, steps: Steps, left: Steps, compiling: Spans
) -> bool:
    """Whether the steps that are not left wait for work that all of them handed over, beside what compiles there.

    A host that runs ahead waits every so many steps, as for a mean of the losses, and that may compile the first time.
    """
    if driver is None or not vocabulary.eager:
        return False
    waits = _beyond(subtract(waits_for_work(driver, vocabulary), compiling), NUMBER_TAKES_PS)
    whole, part = (int(covered(waits, each.start, each.end).sum()) for each in (steps, left))
    return whole - part >= WAITS_FROM_SHARE * int(left.wall_ps.sum())


def _named(driver: Track, vocabulary: Vocabulary) -> Spans:
    chosen = np.isin(driver.name_row, vocabulary.named(NUMBER_READ).rows(driver.plane.events.names))
    return union(driver.start[chosen], driver.end[chosen])


def _beyond(spans: Spans, ps: int) -> Spans:
    """The spans without their first picoseconds; shorter ones are left out."""
    longer = spans.end - spans.start > ps
    return Spans(spans.start[longer] + ps, spans.end[longer])


def _handing_over(host: Host, driver: Track, vocabulary: Vocabulary, at_most: int | None = None) -> Spans:
    """When other threads hand programs over; `at_most` is what counts of each call (ps)."""
    rows = by_plane(host.threads, lambda plane: vocabulary.handed_over.rows(plane.events.names))
    chosen = [
        (track, np.isin(track.name_row, rows[id(track.plane)]))
        for track in host.threads
        if track is not driver
    ]
    ends = [
        (
            track.start[each],
            track.end[each] if at_most is None else np.minimum(track.end[each], track.start[each] + at_most),
        )
        for track, each in chosen
    ]
    return merge(*(union(start, end) for start, end in ends))
