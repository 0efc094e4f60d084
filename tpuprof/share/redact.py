"""Replaces what is private by stable pseudonyms: `user-1`, `host-1`, `path-3/train.py:12`, `secret-1`.

A value learnt in one place (a token in the environment, a user name in a path) is replaced everywhere.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from operator import is_not
from pathlib import Path
from typing import Any, TypeVar

from tpuprof.report.op_rows import OpRows
from tpuprof.safe_text import FROM_SAFE, TO_SAFE, holds_safe
from tpuprof.share import sensitive
from tpuprof.share.among import Among
from tpuprof.share.learned import Learned, named_kind, tells_something
from tpuprof.share.pseudonyms import Pseudonyms
from tpuprof.share.replacing import Replacing
from tpuprof.share.sensitive import Kind

Value = TypeVar("Value")

# Most values of a report: they hold no text.
_NUMBERS = frozenset({int, float, bool, type(None)})
_FLAG = re.compile(r"^--?[\w-]+$")


class Redactor:
    """Replaces private values in texts and remembers what it replaced, by kind.

    `learn` first, with all there is to learn from; then `text` or `value`. Nothing is ever read from the network.
    With `secrets_only`, paths, machines and people stay as they are.
    """

    def __init__(self, *, secrets_only: bool = False) -> None:
        self._names = Pseudonyms()
        self._learned = Learned(self._forget)
        self._replacing = Replacing(self._names, self._learned, secrets_only=secrets_only)
        # What may find anything in the texts that are looked at together; None where one is looked at alone.
        self._among: Among | None = None
        self._cache: dict[str, tuple[str, tuple[tuple[Kind, str], ...]]] = {}
        self._stay: set[str] = set()  # texts in which nothing is replaced
        # Texts that were learned from, each under its name; keys of dictionaries under none.
        self._seen: set[tuple[str | None, Any]] = set()

    def _forget(self) -> None:
        """What was replaced so far may be replaced in another way, as more is known."""
        self._replacing.forget()
        self._cache.clear()
        self._stay.clear()

    def learn(self, value: Any, name: str = "") -> None:
        """Collect private values from a text, or from records, dictionaries and lists of them, by name and by form."""
        if type(value) in _NUMBERS:
            return
        if isinstance(value, str):
            # A report has the same texts many times.
            if (name, value) not in self._seen:
                self._seen.add((name, value))
                self._learned.from_name(name, value)
                self._learned.from_text(value, self._among)
        elif dataclasses.is_dataclass(value):
            self._learn_fields(vars(value))
        elif isinstance(value, Mapping):
            self._learn_fields(value)
            for key in value:
                if (None, key) not in self._seen:
                    self._seen.add((None, key))
                    self._learned.from_text(str(key), self._among)
        elif isinstance(value, Sequence) and not isinstance(value, bytes):
            for index, each in enumerate(value):
                before = value[index - 1] if index else None
                flag = before if isinstance(before, str) and _FLAG.match(before) else name
                self.learn(each, flag.lstrip("-") if isinstance(flag, str) else name)

    def learn_all(self, texts: Iterable[str], name: str) -> None:
        """The same of many texts under one name; what finds nothing in all of them together is not tried on each."""
        new = [each for each in dict.fromkeys(texts) if each and (name, each) not in self._seen]
        says = bool(name) and named_kind(name) is not None
        with self._looking_among(new) as among:
            telling = {form for form in set(among.forms.values()) if says or tells_something(form, among)}
            for each, form in among.forms.items() if telling else ():
                if form in telling:
                    self.learn(each, name)
        self._seen.update((name, each) for each in new)

    def texts(self, texts: Sequence[str]) -> list[str]:
        """Each text with every private value replaced, as `text` does."""
        times = Counter(texts)
        found = {}
        new = [each for each in times if each not in self._cache]
        with self._looking_among(new) as among:
            quiet = {form for form in set(among.forms.values()) if not self._replacing.tried(form, among)}
            stay = [each for each, form in among.forms.items() if form in quiet]
            self._keep(stay if among.plain else [each for each in stay if not holds_safe(each)])
            for each, count in times.items():
                if each in self._stay:
                    found[each] = each
                else:
                    found[each] = self.text(each)
                    self.again(each, count - 1)
        return [found[each] for each in texts]

    def _keep(self, texts: Sequence[str]) -> None:
        """Remember that nothing is replaced in these texts."""
        self._stay.update(texts)
        self._cache.update((each, (each, ())) for each in texts)

    def again(self, text: str, times: int) -> None:
        """Count what was replaced in a text, which `text` was given, as often more."""
        meant = text.translate(FROM_SAFE) if times and holds_safe(text) else text
        for hit in self._cache[meant][1] if times else ():
            self._names.counts[hit] += times

    @contextmanager
    def _looking_among(self, texts: list[str]) -> Iterator[Among]:
        self._among = Among(texts)
        try:
            yield self._among
        finally:
            self._among = None

    def _learn_fields(self, fields: Mapping[Any, Any]) -> None:
        for key, each in fields.items():
            name = str(key)
            # Most are numbers, empty, or a text that was met before.
            if (
                type(each) not in _NUMBERS
                and each
                and (type(each) is not str or (name, each) not in self._seen)
            ):
                self.learn(each, name)

    def learn_this_machine(self) -> None:
        """Collect the names of this machine, its user and their home: reports are mostly made where runs are."""
        import getpass
        import socket

        self._learned.add(Kind.HOST, socket.gethostname())
        try:
            self._learned.add(Kind.USER, getpass.getuser())
            self._learned.from_text(f"{Path.home()}/")
        except (OSError, KeyError, RuntimeError):
            pass  # a container's user may have no name and no home

    def value(self, value: Value) -> Value:
        """The same records, dictionaries, lists and texts with every text redacted; what holds none is shared."""
        found: Any = value
        if type(found) in _NUMBERS or isinstance(found, Enum):
            return value  # numbers, and words of our own
        if isinstance(found, str):
            found = self.text(found)
        elif isinstance(found, OpRows):
            found = found.with_texts(self.texts)
        elif dataclasses.is_dataclass(found) and not isinstance(found, type):
            changed = self._changed(vars(found))
            found = type(found)(**{**vars(found), **changed}) if changed else found
        elif isinstance(found, Mapping):
            found = {
                self.text(key) if isinstance(key, str) else key: self._named(key, each)
                for key, each in found.items()
            }
        elif isinstance(found, Sequence) and not isinstance(found, bytes):
            new = [self.value(each) for each in found]
            if any(map(is_not, new, found)):
                found = type(found)(new) if isinstance(found, list | tuple) else new
        return found  # type: ignore[no-any-return]

    def _changed(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a record that hold what is replaced, with what replaces it."""
        changed = {}
        for name, each in fields.items():
            # Nearly all are numbers, empty, or a text that was looked at before and stays.
            if type(each) not in _NUMBERS and each and not (type(each) is str and each in self._stay):
                new = self.value(each)
                if new is not each:
                    changed[name] = new
        return changed

    def text(self, text: str) -> str:
        """The text with every private value replaced."""
        if text not in self._cache:
            if holds_safe(text):
                # Forms are recognised in the text that is meant.
                return self.text(text.translate(FROM_SAFE)).translate(TO_SAFE)
            self._names.hits = []
            self._cache[text] = (self._replace(text), tuple(self._names.hits))
        result, hits = self._cache[text]
        if hits:
            self._names.counts.update(hits)
        elif result == text:
            self._stay.add(text)
            return text
        return result

    def counts_by_kind(self) -> dict[str, int]:
        """How often values of each kind were replaced, kinds without any left out."""
        return self._names.counts_by_kind()

    def replacements(self) -> list[tuple[str, str, str, int]]:
        """(kind, value, pseudonym, times) of all that was replaced, for the person who sends the report."""
        return self._names.replacements()

    def literals(self) -> list[str]:
        """Learnt values long enough to be looked for in raw bytes, longest first."""
        return self._learned.literals()

    def _named(self, key: Any, value: Any) -> Any:
        """A dictionary's value: what a name says is secret is replaced whole, however short."""
        if isinstance(value, str) and isinstance(key, str) and sensitive.SECRET_NAME.search(key):
            if value and not sensitive.TRIVIAL.match(value) and not sensitive.PSEUDONYM.fullmatch(value):
                name = self._names.of(Kind.SECRET, value)
                self._names.counts[Kind.SECRET, value] += 1
                return name
            return value
        return self.value(value)

    def _replace(self, text: str) -> str:
        return self._replacing.passed(self._replacing.tried(text, self._among), text)
