"""What may be kept of a command line: all but its keys and passwords."""

from __future__ import annotations

from collections.abc import Sequence

from tpuprof.share.redact import Redactor


def without_secrets(words: Sequence[str]) -> list[str]:
    """The words of a command, each key and password replaced by a pseudonym such as `secret-1`."""
    redactor = Redactor(secrets_only=True)
    redactor.learn(list(words))
    return redactor.value(list(words))
