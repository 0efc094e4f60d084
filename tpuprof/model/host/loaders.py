"""When the training thread makes or awaits a batch, by samples of its stack: in a library's loader, or in its own code.

A generator or iterator of the program's own that a loop takes its elements from is a loader, unless it trains.
"""

from __future__ import annotations

import numpy as np

from tpuprof.model.host.interval_pieces import KINDS, TRACING
from tpuprof.model.host.samples import HostSamples
from tpuprof.model.host.stacks import loads_data
from tpuprof.model.intervals import EMPTY, Spans, covered, union

# Share of the tracing, or of the moments at which programs are handed over, from which an iterator trains, and loads no
# data (share): a data pipeline traces an augmentation at most.
TRAINS_FROM_SHARE = 0.5


def loading(samples: HostSamples | None, training: Spans) -> Spans:
    """When the thread was in a loader without tracing: a capture may begin in the middle of such a call.

    A loader is what a library calls so, and what gives a loop of the program's its elements, unless it trains itself:
    `training` is when the thread was at compiling or handing over programs.
    """
    if samples is None:
        return EMPTY
    trains = _that_train(samples, training)
    rows = [
        row
        for row, stack in enumerate(samples.stacks)
        if loads_data(stack) or (stack.iterator and stack.iterator not in trains)
    ]
    chosen = np.isin(samples.stack, rows) & (samples.kind != KINDS.index(TRACING))
    return union(samples.start[chosen], samples.end[chosen])


def _that_train(samples: HostSamples, training: Spans) -> set[str]:
    """Iterators in which most of the tracing is done, or most programs are handed over: training loops that yield."""
    names = {stack.iterator for stack in samples.stacks if stack.iterator}
    tracing = np.where(samples.kind == KINDS.index(TRACING), samples.end - samples.start, 0)
    handing = covered(training, samples.taken, samples.taken + 1)
    found = set()
    for name in names:
        rows = [row for row, stack in enumerate(samples.stacks) if stack.iterator == name]
        for amount, of in ((tracing, samples.stack), (handing, samples.seen)):
            total = int(amount.sum())
            if total and amount[np.isin(of, rows)].sum() > TRAINS_FROM_SHARE * total:
                found.add(name)
    return found
