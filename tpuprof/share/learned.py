"""The private values that are known: from the names of fields and variables, and from the forms of texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from tpuprof.safe_text import FROM_SAFE
from tpuprof.share import repositories, sensitive, token_forms
from tpuprof.share.among import Among, Learnt
from tpuprof.share.pseudonyms import ANY_CASE
from tpuprof.share.sensitive import Kind
from tpuprof.share.signs import NOT_IN_WORDS, SIGNS, in_lower_case, may_match

# From this many characters on, a learnt value is replaced inside longer words as well (characters).
INSIDE_WORDS_FROM = 8
# Shorter secrets than this are replaced where they are named as such and nowhere else (characters).
MIN_SECRET = 6
# Shorter host names than this are replaced only where a host name stands (characters).
MIN_HOST = 4
_SPLIT = re.compile(r"[,;\s]+")
_PROCESS = re.compile(r"-p\d+$")
# How TorchTPU names the profiles of a host's processes.
_RANKED = re.compile(r"rank\d+_(?P<after>.+)|(?P<before>.+)_\d+")
# What a text itself tells: kind, pattern, and the groups of which one holds the value.
_TELLING = (
    (Kind.SECRET, token_forms.SECRET, (0,)),
    (Kind.SECRET, token_forms.SECRET_DIGITS, (0,)),
    (Kind.SECRET, sensitive.BEARER, (2,)),
    (Kind.SECRET, sensitive.ASSIGNED, (3, 6)),
    (Kind.USER, sensitive.HOME, (1,)),
    (Kind.USER, sensitive.USER_FOLDER, (1,)),
    (Kind.USER, sensitive.LOGIN, (1,)),
    (Kind.HOST, sensitive.LOGIN, (2,)),
    (Kind.USER, sensitive.SCP, (1,)),
    (Kind.HOST, sensitive.SCP, (2,)),
    (Kind.HOST, sensitive.UNC_PATH, (2,)),
    (Kind.HOST, sensitive.SHARE, (1,)),
    (Kind.USER, repositories.REPOSITORY, (2, 8)),
    (Kind.PROJECT, sensitive.PROJECT, (1,)),
    (Kind.PROJECT, sensitive.ACCOUNT_PROJECT, (1,)),
    (Kind.PROJECT, sensitive.ACCOUNT, (1,)),
    (Kind.USER, sensitive.TRACKED, (1,)),
    (Kind.PROJECT, sensitive.TRACKED, (2,)),
    (Kind.USER, sensitive.WINDOWS_USER, (1,)),
    (Kind.BUCKET, sensitive.BUCKET, (1,)),
    (Kind.BUCKET, sensitive.BUCKET_HOST, (1,)),
    (Kind.HOST, sensitive.URL_HOST, (1,)),
    (Kind.HOST, sensitive.HOST, (0,)),
)
# What a pattern finds that says nothing of who has it.
_PUBLIC = {repositories.REPOSITORY: repositories.PUBLIC_OWNERS, sensitive.SHARE: sensitive.SOURCE_TREES}
# Signs and all stand beside each pattern: to look a pattern up takes longer than to try it.
LEARNT = tuple(
    Learnt(kind, pattern, groups, SIGNS.get(pattern, ()), _PUBLIC.get(pattern, frozenset()))
    for kind, pattern, groups in _TELLING
)
LEARNT_FROM_WORDS = tuple(each for each in LEARNT if each.pattern not in NOT_IN_WORDS)
# What a name says that its value is; the first that fits counts.
_NAMED = (
    (Kind.SECRET, sensitive.SECRET_NAME),
    (Kind.HOST, sensitive.HOST_NAMED),
    (Kind.PROJECT, sensitive.PROJECT_NAMED),
    (Kind.USER, sensitive.USER_NAMED),
    (Kind.BUCKET, sensitive.BUCKET_NAMED),
)


class Learned:
    """Private values by kind. `changed` is called when one is added."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._known: dict[Kind, set[str]] = {kind: set() for kind in Kind}
        self._changed = changed

    def add(self, kind: Kind, value: str) -> None:
        """Know a value, unless it is too short or says nothing of who has it."""
        value = value.strip().strip("\"'")
        generic = {Kind.USER: sensitive.GENERIC_USERS, Kind.HOST: sensitive.GENERIC_HOSTS}.get(
            kind, frozenset()
        )
        if kind is Kind.HOST:
            value = _PROCESS.sub("", value)
            if sensitive.public_host(value) or sensitive.private_ip(value):
                return
            if ranked := _RANKED.fullmatch(value):
                # The machine's name too: other processes of it have other ranks.
                self.add(Kind.HOST, ranked["after"] or ranked["before"])
        if (
            len(value) < 2
            or value.lower() in generic
            or sensitive.TRIVIAL.match(value)
            or sensitive.PSEUDONYM.fullmatch(value)
        ):
            return
        if value not in self._known[kind]:
            self._known[kind].add(value)
            if kind is Kind.HOST:
                self._add_parts_of_host(value)
            self._changed()

    def from_name(self, name: str, value: str) -> None:
        """Know the value of a field or variable, by what its name says that it is."""
        kind = named_kind(name) if name and value else None
        if kind is Kind.HOST:
            for each in _SPLIT.split(value):
                self.add(Kind.HOST, re.sub(r"^\w+://|:\d+$", "", each))
        elif kind is Kind.USER:
            self.add(Kind.USER, value.partition("/")[0])
        elif kind is Kind.BUCKET:
            self.add(Kind.BUCKET, value.rsplit("//", maxsplit=1)[-1].split("/", maxsplit=1)[0])
        elif kind is not None:
            self.add(kind, value)

    def from_text(self, text: str, among: Among | None = None) -> None:
        """Know what a text itself tells; `among` knows what the texts that are looked at together may hold."""
        text = text.translate(FROM_SAFE)
        word, lower = sensitive.is_word(text), in_lower_case(text)
        tried: Sequence[Learnt] = LEARNT_FROM_WORDS if word else LEARNT
        if among is not None:
            tried = among.learnt(tried, text, word=word)
        for kind, pattern, groups, signs, public in tried:
            if signs and not may_match(signs, lower):
                continue
            for match in pattern.finditer(text):
                value = next(found for group in groups if (found := match.group(group)))
                if value.lower() not in public:
                    self.add(kind, value)
                if pattern is token_forms.SECRET:
                    self._learn_lines(value)
        for match in () if word else sensitive.VARIABLE.finditer(text):
            self.from_name(*match.groups())

    def literals(self) -> list[str]:
        """Learnt values long enough to be looked for in raw bytes, longest first."""
        least = {Kind.SECRET: MIN_SECRET}
        found = {
            value
            for kind, values in self._known.items()
            for value in values
            if len(value) >= least.get(kind, INSIDE_WORDS_FROM)
        }
        return sorted(found, key=lambda value: (-len(value), value))

    def pattern(self, kind: Kind) -> re.Pattern[str]:
        """Learnt values of a kind, longest first; short ones only where a word begins and ends."""
        forms = []
        for value in sorted(self._known[kind], key=lambda each: (-len(each), each)):
            form = _literal(kind, value)
            if form:
                forms.append(form)
        flags = re.IGNORECASE if kind in ANY_CASE else 0
        return re.compile("|".join(forms) if forms else r"(?!)", flags)

    def _add_parts_of_host(self, host: str) -> None:
        """A machine also goes by its first label, and Google's names hold the project: `host.c.PROJECT.internal`."""
        labels = host.split(".")
        if len(labels) > 1 and len(labels[0]) >= MIN_HOST:
            self.add(Kind.HOST, labels[0])
        if len(labels) >= 4 and labels[-1] == "internal" and labels[-3] == "c":
            self.add(Kind.PROJECT, labels[-2])

    def _learn_lines(self, key: str) -> None:
        """A key of many lines may be cut apart elsewhere."""
        for line in key.splitlines()[1:]:
            if not line.startswith("-----"):
                self.add(Kind.SECRET, line)


def tells_something(form: str, among: Among) -> bool:
    """Whether a private value may be learned from texts of this form, which are looked at together with others."""
    word = sensitive.is_word(form)
    if among.learnt(LEARNT_FROM_WORDS if word else LEARNT, form, word=word):
        return True
    return not word and among.may_hold(sensitive.VARIABLE, SIGNS[sensitive.VARIABLE])


@lru_cache(maxsize=4_096)
def named_kind(name: str) -> Kind | None:
    """What a value is by the name of its field or variable, None where that says nothing."""
    for kind, pattern in _NAMED:
        if pattern.search(name):
            return kind
    return None


def _literal(kind: Kind, value: str) -> str:
    """A pattern for one learnt value, empty where it may only be replaced in its own place."""
    form = re.escape(value)
    if kind is Kind.HOST and len(value) < MIN_HOST:
        kept_files = r"(?<=telemetry\.)|(?<=run\.)|(?<=metrics\.)|(?<=pt_xla_debug\.)"
        # Its first character goes first: looking back from every place takes five times as long.
        first = f"(?=[{re.escape(value[0].lower() + value[0].upper())}])"
        return rf"{first}(?:(?<![^/@\\])|{kept_files}){form}(?=$|[.:]|[-_]p?\d)"
    if kind is Kind.USER and value.lower() in sensitive.WORDS_OF_TRACES:
        return ""
    if kind is Kind.SECRET and len(value) < MIN_SECRET:
        return ""
    if len(value) >= INSIDE_WORDS_FROM or kind is Kind.SECRET:
        return form
    return rf"(?<![A-Za-z0-9]){form}(?![A-Za-z0-9])"
