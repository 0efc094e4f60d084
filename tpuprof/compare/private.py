"""Whether words of two runs are the same, where what is private was replaced in one of the reports."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tpuprof.share.redact import Redactor
from tpuprof.share.sensitive import PSEUDONYM

if TYPE_CHECKING:
    from tpuprof.report.schema import Report

_Words = Callable[[Any], Any]


def same_words(base: Report, candidate: Report) -> Callable[[Any, Any], bool]:
    """What tells whether a text (or texts) of the base is that of the candidate.

    A saved report says `path-1` for a path. The other run's path may be that one, so it counts as the same: which
    number it has depends on all the rest of its report.
    """
    if base.redactions is None and candidate.redactions is None:
        return operator.eq
    first, second = _as_sent(base), _as_sent(candidate)
    return lambda old, new: bool(first(old) == second(new))


def _as_sent(report: Report) -> _Words:
    """What makes of words of a report those of one that was saved, its pseudonyms without their number."""
    if report.redactions is not None:
        return _without_numbers
    redactor = Redactor()
    redactor.learn_this_machine()
    redactor.learn(report.environment)
    return lambda words: _without_numbers(redactor.value(words))


def _without_numbers(words: Any) -> Any:
    if isinstance(words, list):
        return [_without_numbers(each) for each in words]
    return (
        PSEUDONYM.sub(lambda found: found[0].rpartition("-")[0], words) if isinstance(words, str) else words
    )
