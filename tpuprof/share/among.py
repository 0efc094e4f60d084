"""Patterns that may find something in many texts, known from all of them at once: most patterns find nothing in any.

A program has ten thousand names of ops. Each sign and each pattern without signs is looked for once in all of them
together; only those that are there are tried on each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tpuprof.safe_text import FROM_SAFE
from tpuprof.share.sensitive import Kind
from tpuprof.share.signs import in_lower_case, may_match

Replace = Callable[[re.Match[str]], str]
# What stands between two texts: no pattern takes it for a part of a name.
_BETWEEN = "\n"


class Learnt(NamedTuple):
    """One pattern that tells a private value: its kind, and the groups of which one holds it.

    `signs` see `tpuprof.share.signs`; values that are `public` say nothing of who has them.
    """

    kind: Kind
    pattern: re.Pattern[str]
    groups: tuple[int, ...]
    signs: tuple[str, ...]
    public: frozenset[str]


class Pass(NamedTuple):
    """One pattern and what replaces what it finds, with its place in the order of all.

    `in_words` is whether it finds anything in a word, see `sensitive.is_word`; `signs` see `tpuprof.share.signs`.
    """

    row: int
    pattern: re.Pattern[str]
    replace: Replace
    in_words: bool
    signs: tuple[str, ...]


class Among:
    """What may be found in any of some texts, each as it is meant."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._text = _BETWEEN.join(texts).translate(FROM_SAFE)
        # One text with letters of other scripts is enough for all signs to be tried on each.
        self._lower = in_lower_case(self._text)
        self._held: dict[re.Pattern[str], bool] = {}
        self._passes: dict[bool, list[Pass]] = {}
        self._learnt: dict[bool, list[Learnt]] = {}

    def may_hold(self, pattern: re.Pattern[str], signs: tuple[str, ...]) -> bool:
        """Whether the pattern may find something in one of the texts."""
        if pattern not in self._held:
            # Signs first: the search takes longer.
            self._held[pattern] = may_match(signs, self._lower) and pattern.search(self._text) is not None
        return self._held[pattern]

    def learnt(self, patterns: Sequence[Learnt], *, words: bool) -> list[Learnt]:
        """Those of the patterns from which private values are learned that may find something in the texts.

        `words` tells that they are those for words.
        """
        if words not in self._learnt:
            self._learnt[words] = [each for each in patterns if self.may_hold(each.pattern, each.signs)]
        return self._learnt[words]

    def passes(self, passes: Sequence[Pass], *, words: bool) -> list[Pass]:
        """Those of all passes that may find something in the texts, or in those of them that are words."""
        if words not in self._passes:
            self._passes[words] = [
                each
                for each in passes
                if (each.in_words or not words) and self.may_hold(each.pattern, each.signs)
            ]
        return self._passes[words]
