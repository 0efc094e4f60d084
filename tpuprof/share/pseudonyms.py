"""The pseudonyms of private values: which each has, and how often it was used.

Pseudonyms are numbered in the order in which values are first met, and every output of a run begins with the same
Report, so two outputs of one run agree. A hash of the value would agree across runs too, but user and host names
are few and short: whoever holds the report could try them all. A keyed hash would need a key kept on this machine.
A number says nothing but "the same as there".
"""

from __future__ import annotations

from collections import Counter

from tpuprof.share import sensitive
from tpuprof.share.sensitive import Kind

# Names of these kinds are replaced in any letter case: computers and mail servers do not tell cases apart.
ANY_CASE = frozenset({Kind.HOST, Kind.PROJECT, Kind.BUCKET, Kind.USER, Kind.EMAIL})


class Pseudonyms:
    """Gives private values their pseudonyms, and remembers them by kind.

    `counts` is how often each value was replaced; `hits` are those of the text that is looked at now.
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[Kind, str]] = Counter()
        self.hits: list[tuple[Kind, str]] = []
        self._names: dict[tuple[Kind, str], str] = {}
        self._spelling: dict[tuple[Kind, str], str] = {}

    def hit(self, kind: Kind, value: str) -> str:
        """What replaces a value in the text that is looked at; a pseudonym stays as it is."""
        if sensitive.PSEUDONYM.fullmatch(value):
            return value
        self.hits.append((kind, self._as_first_seen(kind, value)))
        return self.of(kind, value)

    def of(self, kind: Kind, value: str) -> str:
        """The pseudonym of a value, the next one where it has none."""
        value = self._as_first_seen(kind, value)
        key = (kind, value)
        if key not in self._names:
            number = sum(1 for each, _ in self._names if each is kind) + 1
            self._names[key] = f"{kind.value}-{number}"
        return self._names[key]

    def unless_generic(self, kind: Kind, value: str) -> str:
        """The pseudonym of a name, or the name itself where thousands of machines share it."""
        generic = sensitive.GENERIC_USERS if kind is Kind.USER else sensitive.GENERIC_HOSTS
        return value if value.lower() in generic else self.hit(kind, value)

    def folder(self, folder: str, base: str) -> str:
        """A path as `path-N/base`; a base without a suffix may be a folder, so it goes into the pseudonym."""
        if base and not sensitive.FILE_NAME.match(base):
            return self.hit(Kind.PATH, f"{folder.rstrip('/')}/{base}")
        name = self.hit(Kind.PATH, folder.rstrip("/") or "/")
        return f"{name}/{base}" if base else name

    def counts_by_kind(self) -> dict[str, int]:
        """How often values of each kind were replaced, kinds without any left out."""
        found: Counter[str] = Counter()
        for (kind, _), count in self.counts.items():
            found[kind.value] += count
        return {kind.value: found[kind.value] for kind in Kind if found[kind.value]}

    def replacements(self) -> list[tuple[str, str, str, int]]:
        """(kind, value, pseudonym, times) of all that was replaced, for the person who sends the report."""
        return [
            (kind.value, value, self._names[kind, value], self.counts[kind, value])
            for kind, value in self._names
            if self.counts[kind, value]
        ]

    def _as_first_seen(self, kind: Kind, value: str) -> str:
        """Names differ in letter case from place to place; keys do not, and paths may not."""
        if kind not in ANY_CASE:
            return value
        return self._spelling.setdefault((kind, value.lower()), value)
