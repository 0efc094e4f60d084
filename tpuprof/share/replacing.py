"""What replaces private values: patterns in order, and for each what stands in the place of what it finds."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence

from tpuprof.share import repositories, sensitive, token_forms
from tpuprof.share.among import Among, Pass, Replace
from tpuprof.share.learned import Learned
from tpuprof.share.pseudonyms import Pseudonyms
from tpuprof.share.redact_proto import mask_opaque
from tpuprof.share.sensitive import Kind
from tpuprof.share.signs import NOT_IN_WORDS, SIGNS, in_lower_case, may_match

# A host among others in the value of a variable, without its scheme and port.
_HOST_NAME = re.compile(r"(?<![\w.:/-])[A-Za-z][\w.-]+(?![\w/])(?!://)")


class Replacing:
    """Replaces what is known, and what has the form of something private; with `secrets_only`, secrets alone."""

    def __init__(self, names: Pseudonyms, learned: Learned, *, secrets_only: bool) -> None:
        self._names, self._learned, self._secrets_only = names, learned, secrets_only
        self._passes: list[Pass] = []

    def forget(self) -> None:
        """Make the patterns again: what is known has changed."""
        self._passes = []

    def tried(self, text: str, among: Among | None) -> Sequence[Pass]:
        """The passes that may find something in a text."""
        passes = self.passes()
        return passes if among is None else among.passes(passes, text)

    def passed(self, passes: Sequence[Pass], text: str) -> str:
        """The text after these passes; what one has changed may hold what no text held, so all after it are tried."""
        if not passes:
            return text
        word, lower = sensitive.is_word(text), in_lower_case(text)
        for row, pattern, replace, in_words, signs in passes:
            if (word and not in_words) or (signs and not may_match(signs, lower)):
                continue
            new = pattern.sub(replace, text)
            if new is not text:
                return self.passed(self._passes[row + 1 :], new)
        return text

    def passes(self) -> Sequence[Pass]:
        """All passes, in their order."""
        self._passes = self._passes or [
            Pass(row, pattern, replace, pattern not in NOT_IN_WORDS, SIGNS.get(pattern, ()))
            for row, (pattern, replace) in enumerate(self._make_passes())
        ]
        return self._passes

    def _make_passes(self) -> list[tuple[re.Pattern[str], Replace]]:
        """Patterns in order: what may contain another kind goes first, single names go last."""
        secrets: list[tuple[re.Pattern[str], Replace]] = [
            (token_forms.SECRET, lambda m: self._names.hit(Kind.SECRET, m.group())),
            (token_forms.SECRET_DIGITS, lambda m: self._names.hit(Kind.SECRET, m.group())),
            (token_forms.WEB_HOOK, lambda m: self._names.hit(Kind.SECRET, m.group())),
            (token_forms.AZURE, lambda m: m.group(1) + self._names.hit(Kind.SECRET, m.group(2))),
            (sensitive.BEARER, lambda m: m.group(1) + self._names.hit(Kind.SECRET, m.group(2))),
            (sensitive.URL_LOGIN, lambda m: self._names.hit(Kind.SECRET, m.group(1))),
            (sensitive.ASSIGNED, self._assigned),
            (token_forms.RANDOM_BASE64, self._random_base64),
            (token_forms.RANDOM_WORD, self._random),
            (self._learned.pattern(Kind.SECRET), lambda m: self._names.hit(Kind.SECRET, m.group())),
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
            (sensitive.SHORT_PATH, lambda m: f"{self._names.hit(Kind.PATH, m.group(1))}/{m.group(3)}"),
            (sensitive.IP4, self._ip),
            (sensitive.IP6, self._ip),
            (self._learned.pattern(Kind.BUCKET), lambda m: self._names.hit(Kind.BUCKET, m.group())),
            (sensitive.URL_HOST, self._url_host),
            (self._learned.pattern(Kind.HOST), lambda m: self._names.hit(Kind.HOST, m.group())),
            (sensitive.HOST, lambda m: self._names.hit(Kind.HOST, m.group())),
            (sensitive.PROJECT, self._project),
            (sensitive.ACCOUNT, self._project),
            (sensitive.TRACKED, self._tracked),
            (self._learned.pattern(Kind.PROJECT), lambda m: self._names.hit(Kind.PROJECT, m.group())),
            (sensitive.USER_FOLDER, self._user_folder),
            (self._learned.pattern(Kind.USER), lambda m: self._names.hit(Kind.USER, m.group())),
        ]

    def _assigned(self, match: re.Match[str]) -> str:
        value = match.group(3) or match.group(6)
        if sensitive.TRIVIAL.match(value) or sensitive.PSEUDONYM.fullmatch(value):
            return match.group()
        start = match.start(3) if match.group(3) else match.start(6)
        return match.string[match.start() : start] + self._names.hit(Kind.SECRET, value)

    def _base64(self, match: re.Match[str]) -> str:
        """Encoded bytes in which texts that hold something private are overwritten, length kept."""
        try:
            data = base64.b64decode(match.group(), validate=True)
        except ValueError:
            return match.group()
        # What was encoded stood in none of the texts that are looked at together.
        masked = mask_opaque(data, lambda text: self.passed(self.passes(), text))
        return match.group() if masked == data else base64.b64encode(masked).decode()

    def _random(self, match: re.Match[str]) -> str:
        found = match.group()
        return self._names.hit(Kind.SECRET, found) if token_forms.looks_random(found) else found

    def _random_base64(self, match: re.Match[str]) -> str:
        found = match.group()
        return self._names.hit(Kind.SECRET, found) if token_forms.looks_random_base64(found) else found

    def _login(self, match: re.Match[str]) -> str:
        user, host = match.groups()
        return f"{self._names.unless_generic(Kind.USER, user)}@{self._names.unless_generic(Kind.HOST, host)}"

    def _unc_path(self, match: re.Match[str]) -> str:
        slashes, host, rest = match.groups()
        folder, _, base = rest.rpartition("\\")
        return f"{slashes}{self._names.hit(Kind.HOST, host)}/{self._names.folder(host + folder, base)}"

    def _share(self, match: re.Match[str]) -> str:
        host, rest = match.groups()
        if host.lower() in sensitive.SOURCE_TREES or sensitive.public_host(host):
            return match.group()
        return f"//{self._names.hit(Kind.HOST, host)}{self._below(host, rest)}"

    def _repository(self, match: re.Match[str]) -> str:
        """A repository's address without whose it is and how it is called; its host stays where all may use it."""
        site, owner, slash, name, git, host, colon, other_owner, other_slash, other_name = match.groups()
        if git:
            site = f"{git}{host if sensitive.public_host(host) else self._names.hit(Kind.HOST, host)}{colon}"
            owner, slash, name = other_owner, other_slash, other_name
        if owner.lower() in repositories.PUBLIC_OWNERS:
            return match.group()
        kept = self._names.hit(Kind.PROJECT, name) if name else ""
        return f"{site}{self._names.unless_generic(Kind.USER, owner)}{slash or ''}{kept}"

    def _bucket_host(self, match: re.Match[str]) -> str:
        bucket, domain, rest = match.groups()
        if sensitive.PSEUDONYM.fullmatch(bucket):
            return match.group()
        return f"{self._names.hit(Kind.BUCKET, bucket)}{domain}{self._below(bucket, rest)}"

    def _url_host(self, match: re.Match[str]) -> str:
        """The host of an address, and where that is nobody's but theirs, what it has there."""
        host, port, rest = match.groups()
        if sensitive.public_host(host) or sensitive.private_ip(host):
            return match.group()
        before = match.group()[: match.start(1) - match.start()]
        return f"{before}{self._names.hit(Kind.HOST, host)}{port}{self._below(host, rest)}"

    def _below(self, owner: str, rest: str) -> str:
        """The path of an address as a pseudonym, its file's name kept."""
        folder, _, base = rest.rpartition("/")
        if not any(each.isalpha() for each in rest):
            return rest
        if not folder and sensitive.FILE_NAME.match(base):
            return rest
        return f"/{self._names.folder(f'{owner}{folder}', base)}"

    def _project(self, match: re.Match[str]) -> str:
        project = match.group(1)
        if sensitive.TRIVIAL.match(project):
            return match.group()
        return match.group()[: match.start(1) - match.start()] + self._names.hit(Kind.PROJECT, project)

    def _tracked(self, match: re.Match[str]) -> str:
        user, project = match.groups()
        return f"{self._names.unless_generic(Kind.USER, user)}/{self._names.hit(Kind.PROJECT, project)}"

    def _variable(self, match: re.Match[str]) -> str:
        """A variable that names hosts or a user; other values are found by their own forms."""
        name, value = match.groups()
        before = match.group()[: match.start(2) - match.start()]
        user, slash, rest = value.partition("/")
        if sensitive.USER_NAMED.search(name) and user.isidentifier():
            return f"{before}{self._names.unless_generic(Kind.USER, user)}{slash}{rest}"
        if sensitive.HOST_NAMED.search(name):
            return before + _HOST_NAME.sub(self._host_name, value)
        return match.group()

    def _host_name(self, match: re.Match[str]) -> str:
        found = match.group()
        return (
            found
            if sensitive.public_host(found) or sensitive.TRIVIAL.match(found)
            else self._names.hit(Kind.HOST, found)
        )

    def _user_folder(self, match: re.Match[str]) -> str:
        user = match.group(1)
        kept = match.group()[: match.start(1) - match.start()]
        return kept + self._names.unless_generic(Kind.USER, user)

    def _email(self, match: re.Match[str]) -> str:
        """An address; what is left of a login in front of a host is none, nor is what all write to a public site."""
        found = match.group()
        name, _, host = found.partition("@")
        if sensitive.PSEUDONYM.fullmatch(name) or (name == "git" and sensitive.public_host(host)):
            return found
        return self._names.hit(Kind.EMAIL, found)

    def _bucket(self, match: re.Match[str]) -> str:
        bucket, rest = match.groups()
        if sensitive.PSEUDONYM.fullmatch(bucket):
            return match.group()
        folder, slash, base = rest.rpartition("/")
        name = self._names.hit(Kind.BUCKET, bucket)
        if not folder:
            kept = (
                base
                if sensitive.FILE_NAME.match(base) or not base
                else self._names.hit(Kind.PATH, f"{bucket}{rest}")
            )
            return f"{name}{slash}{kept}"
        return f"{name}/{self._names.folder(f'{bucket}{folder}', base)}"

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
            return f"{self._names.hit(Kind.PATH, whole[: public.start()] or '/')}/{public.group(1)}"
        folder, _, base = whole.rpartition("/")
        return self._names.folder(folder, base)

    def _windows_path(self, match: re.Match[str]) -> str:
        folder, base = match.groups()
        if not base and folder.count("\\") == 1:
            return match.group()
        return self._names.folder(folder.rstrip("\\"), base)

    def _ip(self, match: re.Match[str]) -> str:
        found = match.group()
        return self._names.hit(Kind.IP, found) if sensitive.private_ip(found) else found
