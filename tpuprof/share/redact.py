"""Replaces what is private by stable pseudonyms: `user-1`, `host-1`, `path-3/train.py:12`, `secret-1`.

Pseudonyms are numbered in the order in which values are first met, and every output of a run begins with the same
Report, so two outputs of one run agree. A hash of the value would agree across runs too, but user and host names
are few and short: whoever holds the report could try them all. A keyed hash would need a key kept on this machine.
A number says nothing but "the same as there".

A value learnt in one place (a token in the environment, a user name in a path) is replaced everywhere.
"""

# Past 400 lines: one class, whose pseudonyms all methods share; patterns are in sensitive.py.

from __future__ import annotations

import base64
import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import lru_cache
from operator import is_not
from pathlib import Path
from typing import Any, TypeVar

from tpuprof.report.op_rows import OpRows
from tpuprof.safe_text import FROM_SAFE, TO_SAFE, holds_safe
from tpuprof.share import repositories, sensitive, token_forms
from tpuprof.share.among import Among, Learnt, Pass, Replace
from tpuprof.share.redact_proto import mask_opaque
from tpuprof.share.sensitive import Kind
from tpuprof.share.signs import SIGNS, in_lower_case, may_match

Value = TypeVar("Value")

# From this many characters on, a learnt value is replaced inside longer words as well (characters).
INSIDE_WORDS_FROM = 8
# Shorter secrets than this are replaced where they are named as such and nowhere else (characters).
MIN_SECRET = 6
# Shorter host names than this are replaced only where a host name stands (characters).
MIN_HOST = 4
# Names of these kinds are replaced in any letter case: computers and mail servers do not tell cases apart.
_ANY_CASE = frozenset({Kind.HOST, Kind.PROJECT, Kind.BUCKET, Kind.USER, Kind.EMAIL})
_TRIVIAL = re.compile(r"(?i)^(?:\d{1,6}|none|null|true|false|yes|no|on|off|int|str|\$\{?\w+\}?|<.*>|\*+)$")
# A host among others in the value of a variable, without its scheme and port.
_HOST_NAME = re.compile(r"(?<![\w.:/-])[A-Za-z][\w.-]+(?![\w/])(?!://)")
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
# What finds nothing in a text that is one word (`sensitive.is_word`): it needs a sign that no word has.
_NOT_IN_WORDS = frozenset(
    {
        token_forms.WEB_HOOK, token_forms.AZURE, repositories.REPOSITORY, sensitive.BEARER, sensitive.URL_LOGIN,
        sensitive.ASSIGNED, sensitive.VARIABLE, sensitive.EMAIL, sensitive.SCP, sensitive.LOGIN,
        sensitive.LOGIN_IN_SCOPE, sensitive.UNC_PATH, sensitive.SHARE, sensitive.BUCKET, sensitive.WINDOWS_PATH,
        sensitive.WINDOWS_USER, sensitive.HOME, sensitive.PATH, sensitive.SHORT_PATH, sensitive.IP6,
        sensitive.URL_HOST, sensitive.PROJECT, sensitive.ACCOUNT_PROJECT, sensitive.ACCOUNT, sensitive.TRACKED,
        sensitive.USER_FOLDER,
    }
)  # fmt: skip
# What a pattern finds that says nothing of who has it.
_PUBLIC = {repositories.REPOSITORY: repositories.PUBLIC_OWNERS, sensitive.SHARE: sensitive.SOURCE_TREES}
# Signs and all stand beside each pattern: to look a pattern up takes longer than to try it.
_LEARNT = tuple(
    Learnt(kind, pattern, groups, SIGNS.get(pattern, ()), _PUBLIC.get(pattern, frozenset()))
    for kind, pattern, groups in _TELLING
)
_LEARNT_FROM_WORDS = tuple(each for each in _LEARNT if each.pattern not in _NOT_IN_WORDS)
# What a name says that its value is; the first that fits counts.
_NAMED = (
    (Kind.SECRET, sensitive.SECRET_NAME),
    (Kind.HOST, sensitive.HOST_NAMED),
    (Kind.PROJECT, sensitive.PROJECT_NAMED),
    (Kind.USER, sensitive.USER_NAMED),
    (Kind.BUCKET, sensitive.BUCKET_NAMED),
)
# Most values of a report: they hold no text.
_NUMBERS = frozenset({int, float, bool, type(None)})
_FLAG = re.compile(r"^--?[\w-]+$")


class Redactor:
    """Replaces private values in texts and remembers what it replaced, by kind.

    `learn` first, with all there is to learn from; then `text` or `value`. Nothing is ever read from the network.
    With `secrets_only`, paths, machines and people stay as they are.
    """

    def __init__(self, *, secrets_only: bool = False) -> None:
        self._secrets_only = secrets_only
        self.counts: Counter[tuple[Kind, str]] = Counter()
        self._names: dict[tuple[Kind, str], str] = {}
        self._known: dict[Kind, set[str]] = {kind: set() for kind in Kind}
        self._passes: list[Pass] = []
        # What may find anything in the texts that are looked at together; None where one is looked at alone.
        self._among: Among | None = None
        self._cache: dict[str, tuple[str, tuple[tuple[Kind, str], ...]]] = {}
        self._stay: set[str] = set()  # texts in which nothing is replaced
        self._hits: list[tuple[Kind, str]] = []
        self._spelling: dict[tuple[Kind, str], str] = {}
        # Texts that were learned from, each under its name; keys of dictionaries under none.
        self._seen: set[tuple[str | None, Any]] = set()

    def learn(self, value: Any, name: str = "") -> None:
        """Collect private values from a text, or from records, dictionaries and lists of them, by name and by form."""
        if type(value) in _NUMBERS:
            return
        if isinstance(value, str):
            # A report has the same texts many times.
            if (name, value) not in self._seen:
                self._seen.add((name, value))
                self._learn_named(name, value)
                self._learn_text(value)
        elif dataclasses.is_dataclass(value):
            self._learn_fields(vars(value))
        elif isinstance(value, Mapping):
            self._learn_fields(value)
            for key in value:
                if (None, key) not in self._seen:
                    self._seen.add((None, key))
                    self._learn_text(str(key))
        elif isinstance(value, Sequence) and not isinstance(value, bytes):
            for index, each in enumerate(value):
                before = value[index - 1] if index else None
                flag = before if isinstance(before, str) and _FLAG.match(before) else name
                self.learn(each, flag.lstrip("-") if isinstance(flag, str) else name)

    def learn_all(self, texts: Iterable[str], name: str) -> None:
        """The same of many texts under one name; what finds nothing in all of them together is not tried on each."""
        new = [each for each in dict.fromkeys(texts) if each and (name, each) not in self._seen]
        says = bool(name) and _named_kind(name) is not None
        with self._looking_among(new) as among:
            telling = {form for form in set(among.forms.values()) if says or _tells_something(form, among)}
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
            quiet = {form for form in set(among.forms.values()) if not self._tried(form, among)}
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
            self.counts[hit] += times

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

        self._add(Kind.HOST, socket.gethostname())
        try:
            self._add(Kind.USER, getpass.getuser())
            self._learn_text(f"{Path.home()}/")
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
            self._hits = []
            self._cache[text] = (self._replace(text), tuple(self._hits))
        result, hits = self._cache[text]
        if hits:
            self.counts.update(hits)
        elif result == text:
            self._stay.add(text)
            return text
        return result

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

    # learning

    def _add(self, kind: Kind, value: str) -> None:
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
                self._add(Kind.HOST, ranked["after"] or ranked["before"])
        if (
            len(value) < 2
            or value.lower() in generic
            or _TRIVIAL.match(value)
            or sensitive.PSEUDONYM.fullmatch(value)
        ):
            return
        if value not in self._known[kind]:
            self._known[kind].add(value)
            if kind is Kind.HOST:
                self._add_parts_of_host(value)
            self._passes = []
            self._cache.clear()
            self._stay.clear()

    def _add_parts_of_host(self, host: str) -> None:
        """A machine also goes by its first label, and Google's names hold the project: `host.c.PROJECT.internal`."""
        labels = host.split(".")
        if len(labels) > 1 and len(labels[0]) >= MIN_HOST:
            self._add(Kind.HOST, labels[0])
        if len(labels) >= 4 and labels[-1] == "internal" and labels[-3] == "c":
            self._add(Kind.PROJECT, labels[-2])

    def _learn_named(self, name: str, value: str) -> None:
        kind = _named_kind(name) if name and value else None
        if kind is Kind.HOST:
            for each in _SPLIT.split(value):
                self._add(Kind.HOST, re.sub(r"^\w+://|:\d+$", "", each))
        elif kind is Kind.USER:
            self._add(Kind.USER, value.partition("/")[0])
        elif kind is Kind.BUCKET:
            self._add(Kind.BUCKET, value.rsplit("//", maxsplit=1)[-1].split("/", maxsplit=1)[0])
        elif kind is not None:
            self._add(kind, value)

    def _learn_text(self, text: str) -> None:
        text = text.translate(FROM_SAFE)
        word, lower = sensitive.is_word(text), in_lower_case(text)
        tried: Sequence[Learnt] = _LEARNT_FROM_WORDS if word else _LEARNT
        if self._among is not None:
            tried = self._among.learnt(tried, text, word=word)
        for kind, pattern, groups, signs, public in tried:
            if signs and not may_match(signs, lower):
                continue
            for match in pattern.finditer(text):
                value = next(found for group in groups if (found := match.group(group)))
                if value.lower() not in public:
                    self._add(kind, value)
                if pattern is token_forms.SECRET:
                    self._learn_lines(value)
        for match in () if word else sensitive.VARIABLE.finditer(text):
            self._learn_named(*match.groups())

    def _learn_lines(self, key: str) -> None:
        """A key of many lines may be cut apart elsewhere."""
        for line in key.splitlines()[1:]:
            if not line.startswith("-----"):
                self._add(Kind.SECRET, line)

    # replacing

    def _named(self, key: Any, value: Any) -> Any:
        """A dictionary's value: what a name says is secret is replaced whole, however short."""
        if isinstance(value, str) and isinstance(key, str) and sensitive.SECRET_NAME.search(key):
            if value and not _TRIVIAL.match(value) and not sensitive.PSEUDONYM.fullmatch(value):
                name = self._pseudonym(Kind.SECRET, value)
                self.counts[Kind.SECRET, value] += 1
                return name
            return value
        return self.value(value)

    def _pseudonym(self, kind: Kind, value: str) -> str:
        value = self._as_first_seen(kind, value)
        key = (kind, value)
        if key not in self._names:
            number = sum(1 for each, _ in self._names if each is kind) + 1
            self._names[key] = f"{kind.value}-{number}"
        return self._names[key]

    def _hit(self, kind: Kind, value: str) -> str:
        if sensitive.PSEUDONYM.fullmatch(value):
            return value
        self._hits.append((kind, self._as_first_seen(kind, value)))
        return self._pseudonym(kind, value)

    def _as_first_seen(self, kind: Kind, value: str) -> str:
        """Names differ in letter case from place to place; keys do not, and paths may not."""
        if kind not in _ANY_CASE:
            return value
        return self._spelling.setdefault((kind, value.lower()), value)

    def _replace(self, text: str) -> str:
        return self._passed(self._tried(text, self._among), text)

    def _tried(self, text: str, among: Among | None) -> Sequence[Pass]:
        """The passes that may find something in a text."""
        passes = self._all_passes()
        return passes if among is None else among.passes(passes, text)

    def _all_passes(self) -> Sequence[Pass]:
        self._passes = self._passes or [
            Pass(row, pattern, replace, pattern not in _NOT_IN_WORDS, SIGNS.get(pattern, ()))
            for row, (pattern, replace) in enumerate(self._make_passes())
        ]
        return self._passes

    def _passed(self, passes: Sequence[Pass], text: str) -> str:
        """The text after these passes; what one has changed may hold what no text held, so all after it are tried."""
        if not passes:
            return text
        word, lower = sensitive.is_word(text), in_lower_case(text)
        for row, pattern, replace, in_words, signs in passes:
            if (word and not in_words) or (signs and not may_match(signs, lower)):
                continue
            new = pattern.sub(replace, text)
            if new is not text:
                return self._passed(self._passes[row + 1 :], new)
        return text

    def _make_passes(self) -> list[tuple[re.Pattern[str], Replace]]:
        """Patterns in order: what may contain another kind goes first, single names go last."""
        secrets: list[tuple[re.Pattern[str], Replace]] = [
            (token_forms.SECRET, lambda m: self._hit(Kind.SECRET, m.group())),
            (token_forms.SECRET_DIGITS, lambda m: self._hit(Kind.SECRET, m.group())),
            (token_forms.WEB_HOOK, lambda m: self._hit(Kind.SECRET, m.group())),
            (token_forms.AZURE, lambda m: m.group(1) + self._hit(Kind.SECRET, m.group(2))),
            (sensitive.BEARER, lambda m: m.group(1) + self._hit(Kind.SECRET, m.group(2))),
            (sensitive.URL_LOGIN, lambda m: self._hit(Kind.SECRET, m.group(1))),
            (sensitive.ASSIGNED, self._assigned),
            (token_forms.RANDOM_BASE64, self._random_base64),
            (token_forms.RANDOM_WORD, self._random),
            (self._literals(Kind.SECRET), lambda m: self._hit(Kind.SECRET, m.group())),
        ]
        if self._secrets_only:
            return secrets
        return [
            (sensitive.BASE64, self._base64),
            *secrets,
            (sensitive.VARIABLE, self._variable),
            (repositories.REPOSITORY, self._repository),
            (sensitive.EMAIL, self._email),
            (sensitive.SCP, self._login),
            (sensitive.LOGIN, self._login),
            (sensitive.LOGIN_IN_SCOPE, self._login),
            (sensitive.UNC_PATH, self._unc_path),
            (sensitive.SHARE, self._share),
            (sensitive.BUCKET, self._bucket),
            (sensitive.BUCKET_HOST, self._bucket_host),
            (sensitive.WINDOWS_PATH, self._windows_path),
            (sensitive.HOME, self._home),
            (sensitive.PATH, self._path),
            (sensitive.SHORT_PATH, lambda m: f"{self._hit(Kind.PATH, m.group(1))}/{m.group(3)}"),
            (sensitive.IP4, self._ip),
            (sensitive.IP6, self._ip),
            (self._literals(Kind.BUCKET), lambda m: self._hit(Kind.BUCKET, m.group())),
            (sensitive.URL_HOST, self._url_host),
            (self._literals(Kind.HOST), lambda m: self._hit(Kind.HOST, m.group())),
            (sensitive.HOST, lambda m: self._hit(Kind.HOST, m.group())),
            (sensitive.PROJECT, self._project),
            (sensitive.ACCOUNT, self._project),
            (sensitive.TRACKED, self._tracked),
            (self._literals(Kind.PROJECT), lambda m: self._hit(Kind.PROJECT, m.group())),
            (sensitive.USER_FOLDER, self._user_folder),
            (self._literals(Kind.USER), lambda m: self._hit(Kind.USER, m.group())),
        ]

    def _literals(self, kind: Kind) -> re.Pattern[str]:
        """Learnt values of a kind, longest first; short ones only where a word begins and ends."""
        forms = []
        for value in sorted(self._known[kind], key=lambda each: (-len(each), each)):
            form = _literal(kind, value)
            if form:
                forms.append(form)
        flags = re.IGNORECASE if kind in _ANY_CASE else 0
        return re.compile("|".join(forms) if forms else r"(?!)", flags)

    def _assigned(self, match: re.Match[str]) -> str:
        value = match.group(3) or match.group(6)
        if _TRIVIAL.match(value) or sensitive.PSEUDONYM.fullmatch(value):
            return match.group()
        start = match.start(3) if match.group(3) else match.start(6)
        return match.string[match.start() : start] + self._hit(Kind.SECRET, value)

    def _base64(self, match: re.Match[str]) -> str:
        """Encoded bytes in which texts that hold something private are overwritten, length kept."""
        try:
            data = base64.b64decode(match.group(), validate=True)
        except ValueError:
            return match.group()
        # What was encoded stood in none of the texts that are looked at together.
        masked = mask_opaque(data, lambda text: self._passed(self._all_passes(), text))
        return match.group() if masked == data else base64.b64encode(masked).decode()

    def _random(self, match: re.Match[str]) -> str:
        found = match.group()
        return self._hit(Kind.SECRET, found) if token_forms.looks_random(found) else found

    def _random_base64(self, match: re.Match[str]) -> str:
        found = match.group()
        return self._hit(Kind.SECRET, found) if token_forms.looks_random_base64(found) else found

    def _login(self, match: re.Match[str]) -> str:
        user, host = match.groups()
        return f"{self._known_or_generic(Kind.USER, user)}@{self._known_or_generic(Kind.HOST, host)}"

    def _known_or_generic(self, kind: Kind, value: str) -> str:
        """The pseudonym of a name, or the name itself where thousands of machines share it."""
        generic = sensitive.GENERIC_USERS if kind is Kind.USER else sensitive.GENERIC_HOSTS
        return value if value.lower() in generic else self._hit(kind, value)

    def _unc_path(self, match: re.Match[str]) -> str:
        slashes, host, rest = match.groups()
        folder, _, base = rest.rpartition("\\")
        return f"{slashes}{self._hit(Kind.HOST, host)}/{self._folder(host + folder, base)}"

    def _share(self, match: re.Match[str]) -> str:
        host, rest = match.groups()
        if host.lower() in sensitive.SOURCE_TREES or sensitive.public_host(host):
            return match.group()
        return f"//{self._hit(Kind.HOST, host)}{self._below(host, rest)}"

    def _repository(self, match: re.Match[str]) -> str:
        """A repository's address without whose it is and how it is called; its host stays where all may use it."""
        site, owner, slash, name, git, host, colon, other_owner, other_slash, other_name = match.groups()
        if git:
            site = f"{git}{host if sensitive.public_host(host) else self._hit(Kind.HOST, host)}{colon}"
            owner, slash, name = other_owner, other_slash, other_name
        if owner.lower() in repositories.PUBLIC_OWNERS:
            return match.group()
        kept = self._hit(Kind.PROJECT, name) if name else ""
        return f"{site}{self._known_or_generic(Kind.USER, owner)}{slash or ''}{kept}"

    def _bucket_host(self, match: re.Match[str]) -> str:
        bucket, domain, rest = match.groups()
        if sensitive.PSEUDONYM.fullmatch(bucket):
            return match.group()
        return f"{self._hit(Kind.BUCKET, bucket)}{domain}{self._below(bucket, rest)}"

    def _url_host(self, match: re.Match[str]) -> str:
        """The host of an address, and where that is nobody's but theirs, what it has there."""
        host, port, rest = match.groups()
        if sensitive.public_host(host) or sensitive.private_ip(host):
            return match.group()
        before = match.group()[: match.start(1) - match.start()]
        return f"{before}{self._hit(Kind.HOST, host)}{port}{self._below(host, rest)}"

    def _below(self, owner: str, rest: str) -> str:
        """The path of an address as a pseudonym, its file's name kept."""
        folder, _, base = rest.rpartition("/")
        if not any(each.isalpha() for each in rest):
            return rest
        if not folder and sensitive.FILE_NAME.match(base):
            return rest
        return f"/{self._folder(f'{owner}{folder}', base)}"

    def _project(self, match: re.Match[str]) -> str:
        project = match.group(1)
        if _TRIVIAL.match(project):
            return match.group()
        return match.group()[: match.start(1) - match.start()] + self._hit(Kind.PROJECT, project)

    def _tracked(self, match: re.Match[str]) -> str:
        return (
            f"{self._known_or_generic(Kind.USER, match.group(1))}/{self._hit(Kind.PROJECT, match.group(2))}"
        )

    def _variable(self, match: re.Match[str]) -> str:
        """A variable that names hosts or a user; other values are found by their own forms."""
        name, value = match.groups()
        before = match.group()[: match.start(2) - match.start()]
        user, slash, rest = value.partition("/")
        if sensitive.USER_NAMED.search(name) and user.isidentifier():
            return f"{before}{self._known_or_generic(Kind.USER, user)}{slash}{rest}"
        if sensitive.HOST_NAMED.search(name):
            return before + _HOST_NAME.sub(self._host_name, value)
        return match.group()

    def _host_name(self, match: re.Match[str]) -> str:
        found = match.group()
        return found if sensitive.public_host(found) or _TRIVIAL.match(found) else self._hit(Kind.HOST, found)

    def _user_folder(self, match: re.Match[str]) -> str:
        user = match.group(1)
        kept = match.group()[: match.start(1) - match.start()]
        return kept + self._known_or_generic(Kind.USER, user)

    def _email(self, match: re.Match[str]) -> str:
        """An address; what is left of a login in front of a host is none, nor is what all write to a public site."""
        found = match.group()
        name, _, host = found.partition("@")
        if sensitive.PSEUDONYM.fullmatch(name) or (name == "git" and sensitive.public_host(host)):
            return found
        return self._hit(Kind.EMAIL, found)

    def _bucket(self, match: re.Match[str]) -> str:
        bucket, rest = match.groups()
        if sensitive.PSEUDONYM.fullmatch(bucket):
            return match.group()
        folder, slash, base = rest.rpartition("/")
        name = self._hit(Kind.BUCKET, bucket)
        if not folder:
            kept = (
                base
                if sensitive.FILE_NAME.match(base) or not base
                else self._hit(Kind.PATH, f"{bucket}{rest}")
            )
            return f"{name}{slash}{kept}"
        return f"{name}/{self._folder(f'{bucket}{folder}', base)}"

    def _folder(self, folder: str, base: str) -> str:
        """A path as `path-N/base`; a base without a suffix may be a folder, so it goes into the pseudonym."""
        if base and not sensitive.FILE_NAME.match(base):
            return self._hit(Kind.PATH, f"{folder.rstrip('/')}/{base}")
        name = self._hit(Kind.PATH, folder.rstrip("/") or "/")
        return f"{name}/{base}" if base else name

    def _home(self, match: re.Match[str]) -> str:
        return self._any_path(match.group())

    def _path(self, match: re.Match[str]) -> str:
        whole = match.group()
        if whole.startswith(sensitive.PUBLIC_ROOTS):
            return whole
        return self._any_path(whole)

    def _any_path(self, whole: str) -> str:
        public = sensitive.PUBLIC_TAIL.search(whole)
        if public:
            return f"{self._hit(Kind.PATH, whole[: public.start()] or '/')}/{public.group(1)}"
        folder, _, base = whole.rpartition("/")
        return self._folder(folder, base)

    def _windows_path(self, match: re.Match[str]) -> str:
        folder, base = match.groups()
        if not base and folder.count("\\") == 1:
            return match.group()
        return self._folder(folder.rstrip("\\"), base)

    def _ip(self, match: re.Match[str]) -> str:
        found = match.group()
        return self._hit(Kind.IP, found) if sensitive.private_ip(found) else found


def _tells_something(form: str, among: Among) -> bool:
    """Whether a private value may be learned from texts of this form, which are looked at together with others."""
    word = sensitive.is_word(form)
    if among.learnt(_LEARNT_FROM_WORDS if word else _LEARNT, form, word=word):
        return True
    return not word and among.may_hold(sensitive.VARIABLE, SIGNS[sensitive.VARIABLE])


@lru_cache(maxsize=4_096)
def _named_kind(name: str) -> Kind | None:
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
