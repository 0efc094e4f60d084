"""Patterns that may find something in many texts, known from all of them at once: most patterns find nothing in any.

A program has ten thousand names of ops. Each sign and each pattern without signs is looked for once in all of them
together; only those that are there are tried on each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tpuprof.safe_text import FROM_SAFE, holds_safe
from tpuprof.share.alike import for_forms, form_of
from tpuprof.share.sensitive import Kind, is_word
from tpuprof.share.signs import in_lower_case, may_match

Replace = Callable[[re.Match[str]], str]
# What stands between two texts: no pattern takes it for a part of a name.
_BETWEEN = "\n"
# What stands between two texts that are taken apart again.
_APART = "\0"


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
    """What may be found in any of some texts, each as it is meant. Texts of the same form are looked at once."""

    def __init__(self, texts: Iterable[str]) -> None:
        texts = list(texts)
        # The form of each, and whether none has characters that stand for others.
        self.forms = dict(zip(texts, _forms(texts), strict=True))
        self.plain = not holds_safe(_BETWEEN.join(texts))
        self._text = _BETWEEN.join(dict.fromkeys(self.forms.values()))
        self._lower = in_lower_case(self._text)
        self._held: dict[re.Pattern[str], bool] = {}
        # Of all passes, and of all that tells a value, what may find something: in any text, and in those of a form.
        self._passes: dict[str | bool, list[Pass]] = {}
        self._learnt: dict[str | bool, list[Learnt]] = {}

    def may_hold(self, pattern: re.Pattern[str], signs: Sequence[str]) -> bool:
        """Whether the pattern may find something in one of the texts."""
        if pattern not in self._held:
            # Signs first: the search takes longer.
            self._held[pattern] = (
                may_match([form_of(each) for each in signs], self._lower)
                and for_forms(pattern).search(self._text) is not None
            )
        return self._held[pattern]

    def learnt(self, patterns: Sequence[Learnt], text: str, *, word: bool) -> list[Learnt]:
        """Those of the patterns from which private values are learned that may find something in one of the texts.

        `patterns` are always the same for words, and for what is none.
        """
        form = self._form(text)
        if form not in self._learnt:
            if word not in self._learnt:
                self._learnt[word] = [each for each in patterns if self.may_hold(each.pattern, each.signs)]
            self._learnt[form] = [each for each in self._learnt[word] if _is_in(form, each.pattern)]
        return self._learnt[form]

    def passes(self, passes: Sequence[Pass], text: str) -> list[Pass]:
        """Those of all passes that may find something in one of the texts."""
        form = self._form(text)
        if form not in self._passes:
            word = is_word(form)
            if word not in self._passes:
                tried = (each for each in passes if each.in_words or not word)
                self._passes[word] = [each for each in tried if self.may_hold(each.pattern, each.signs)]
            self._passes[form] = [each for each in self._passes[word] if _is_in(form, each.pattern)]
        return self._passes[form]

    def _form(self, text: str) -> str:
        return self.forms.get(text) or form_of(text)


def _forms(texts: list[str]) -> list[str]:
    """The form of each text, as it is meant: of all in one pass where none holds what is put between them."""
    together = _APART.join(texts)
    if together.count(_APART) >= len(texts) or not texts:
        return [form_of(each.translate(FROM_SAFE)) for each in texts]
    return form_of(together if together.isascii() else together.translate(FROM_SAFE)).split(_APART)


def _is_in(form: str, pattern: re.Pattern[str]) -> bool:
    return for_forms(pattern).search(form) is not None
