"""Where a training step ends, decided while the program runs: from optimizer calls, else from graph cuts.

torch_xla runs an update at the graph cut after the optimizer's call, so a step ends at that cut. Where none comes
before the next call, it ends at the call itself. A program whose whole step is compiled functions may do neither: its
steps are rounds of their graphs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import pairwise

OPTIMIZER, CUT, COMPILED, USER = "optimizer", "cut", "compiled", "user"
# Calls remembered to find the round of several optimizers (calls).
MAX_CALLS = 1024
# Graph cuts with no optimizer call between, after which cuts are looked at (cuts); after as many more behind a backward
# pass they count again: the program then updates by other means. Sixty-four micro-batches of one step are more than
# anyone uses.
CUTS_WITHOUT_CALL = 64
# Rounds of the graphs of compiled functions with neither an optimizer call nor a graph cut, after which they count as
# steps (rounds): torch.compile cuts by itself where it compiles, and a loop that cuts does so after few micro-batches.
ROUNDS_WITHOUT_CUT = 8
# Deviations from a round after which rounds are taken to vary (calls): one is an accident. A judgement.
ODD_ROUNDS = 8
# How many times as long as any round so far one may be before the optimizer that ends rounds is taken to be called no
# more (ratio): one that was called once, as a graph of an evaluation is, must not keep steps from ending. A judgement.
OVERDUE = 1.25


class OptimizerRound:
    """The sequence of optimizers that makes one step: the shortest that repeats, as far as it is known.

    One optimizer makes a round by itself. When another one turns up, what was a round becomes a part of one. Where the
    one that turned up last is called once at a time, rounds end with it, however often the others are called.
    """

    def __init__(self) -> None:
        self.word: list[int] = []
        self._calls: deque[int] = deque(maxlen=MAX_CALLS)
        self._at = 0
        self._missed = 0
        self._known: set[int] = set()
        # The optimizer that ends rounds, None where their length does; and the longest round that ended so (calls).
        self._last: int | None = None
        self._longest = 0
        # Rounds that were not like the others, and calls since one was complete.
        self._odd = self._since = 0

    def add(self, number: int) -> bool:
        """Take one call; whether it completes a round."""
        self._known.add(number)
        self._calls.append(number)
        self._since += 1
        fits = bool(self.word) and self.word[self._at] == number
        if not fits or self._since == self._overdue:
            self._learn()
        self._at += 1
        ends = self._at == len(self.word) if self._last is None else number == self._last
        self._at %= len(self.word)
        if not ends:
            return False
        self._longest = max(self._longest, self._since)
        self._at = self._since = 0
        self._missed = 0 if fits else self._missed
        return True

    @property
    def varies(self) -> bool:
        """Whether rounds are not all of the same calls."""
        return self._odd >= ODD_ROUNDS

    @property
    def _overdue(self) -> int:
        """Calls since the last round from which it is doubtful that the optimizer comes which ends rounds."""
        return int(OVERDUE * max(len(self.word), self._longest)) + 1

    def _learn(self) -> None:
        """Make the round fit the call just made: from what all calls repeat, else from what repeats of late."""
        self._missed += 1
        overdue = self._last is None or self._since >= self._overdue
        number = self._calls[-1]
        if self.varies and number in self.word and not overdue:
            # What repeats was looked for often enough: that takes a millisecond.
            self._at = self.word.index(number)
            return
        calls = list(self._calls)
        period = _shortest_period(calls)
        late = _repeats_of_late(calls, 2, self._known) or (overdue and _repeats_of_late(calls, 3, set()))
        if 2 * period <= len(calls):
            self._take(calls[:period], (len(calls) - 1) % period)
        elif late:
            self._take(*_rotated(calls[-late:]))
        elif number in self.word and (self._missed == 1 or self._last is not None):
            # A single deviation, or rounds that are not all alike: the round goes on from this optimizer.
            self._odd += 1
            self._at = self.word.index(number)
        else:
            self._take(calls, len(calls) - 1)

    def _take(self, word: list[int], at: int) -> None:
        """Take this for the round from now on; the call just made is at that place of it."""
        self.word, self._at = word, at
        before, last = self._last, max(word)
        twice = (last, last) in pairwise([*word, word[0]])
        self._last = None if twice and len(word) > 1 else last
        if self._last != before:
            self._longest = self._odd = 0


def _shortest_period(calls: list[int]) -> int:
    """The smallest distance at which all calls repeat, the length of all where none does (Knuth, Morris, Pratt)."""
    border = [0] * len(calls)
    length = 0
    for at in range(1, len(calls)):
        while length and calls[at] != calls[length]:
            length = border[length - 1]
        length += calls[at] == calls[length]
        border[at] = length
    return len(calls) - border[-1]


def _repeats_of_late(calls: list[int], repeats: int, needed: set[int]) -> int:
    """Length of the shortest sequence that the last calls are so many repeats of, 0 where none is.

    It holds at least the optimizers that are needed.
    """
    for length in range(1, len(calls) // repeats + 1):
        last = calls[-length:]
        if needed <= set(last) and calls[-repeats * length :] == last * repeats:
            return length
    return 0


def _rotated(round_: list[int]) -> tuple[list[int], int]:
    """The sequence begun where it is smallest, with the optimizer that came first; and where the last call is in it."""
    rotations = [(round_[at:] + round_[:at], at) for at in range(len(round_))]
    word, moved = min(rotations)
    return word, len(round_) - 1 - moved


class StepBoundaries:
    """Fed with optimizer calls and graph cuts of the training thread; says which of them end a step.

    `origin` is what boundaries are made from now; `grew` tells whether the last call made rounds longer, so that
    steps counted before were parts of one. `first` tells that it was the first call of all, and that cuts before it
    counted as steps: the layers of a model that cuts after each, or an evaluation before training.
    """

    def __init__(self) -> None:
        self.origin = CUT
        self.grew = False
        self.first = False
        self._counted_cuts = 0
        self._graphs: dict[bytes, int] = {}
        self._graph_round = OptimizerRound()
        # Rounds of compiled functions since the last cut.
        self._rounds = 0
        self._round = OptimizerRound()
        self.pending = False
        self._at_calls = False
        self._cuts = 0

    @property
    def calls_per_step(self) -> int:
        """Optimizer calls in one step, 0 where there are none."""
        return len(self._round.word)

    @property
    def events_per_step(self) -> int:
        """Optimizer calls, graph cuts or graphs of compiled functions in one step; 0 where that varies."""
        if self.origin == CUT:
            return 1
        if self.origin == OPTIMIZER and self._round.varies:
            return 0
        return self.calls_per_step if self.origin == OPTIMIZER else len(self._graph_round.word)

    def optimizer_called(self, number: int) -> bool:
        """Whether the step ends here."""
        before = len(self._round.word)
        self.first = not before and (self._counted_cuts > 0 or self.origin == COMPILED)
        self.origin, self._cuts = OPTIMIZER, 0
        if self.pending and self._round.word:
            self._at_calls = True
        completes = self._round.add(number)
        self.grew = 0 < before < len(self._round.word)
        self.pending = completes and not self._at_calls
        return completes and self._at_calls

    def compiled_call(self, graph: bytes) -> bool:
        """Whether the step ends with this run of a compiled function's graph: a round does, if nothing else tells."""
        self.first = self.grew = False
        if self.origin == OPTIMIZER:
            return False
        before = list(self._graph_round.word)
        ends = self._graph_round.add(self._graphs.setdefault(graph, len(self._graphs)))
        fits = before == self._graph_round.word
        self._cuts = 0
        if self.origin == COMPILED:
            self.grew = 0 < len(before) < len(self._graph_round.word)
            return ends
        self._rounds += ends and fits
        if self._rounds < ROUNDS_WITHOUT_CUT:
            return False
        self.origin, self.first = COMPILED, self._counted_cuts > 0
        return True

    def cut(self, *, gradients: Callable[[], bool]) -> bool:
        """Whether the step ends at this cut, which ran a graph.

        `gradients` says whether the cut may be of training. It is asked only once there were many cuts without an
        optimizer's call: it reads gradients, which each of a step's cuts would pay for.
        """
        self.first = self.grew = False
        if self.origin == CUT:
            self._rounds = 0
            self._counted_cuts += 1
            return True
        if self.pending:
            self.pending = False
            return True
        enough = CUTS_WITHOUT_CALL * max(self.calls_per_step, 1)
        self._cuts += self._cuts < enough or gradients()
        if self._cuts > 2 * enough:
            self.origin, self._rounds = CUT, 0
        return False
