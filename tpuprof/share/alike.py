"""Texts that differ in digits alone are looked at once: `fusion.12` and `fusion.97` hold the same kinds of values.

A form is a text in which each digit is a 0. The pattern for forms finds something in the form of each text in which
the pattern itself does; what it finds there may be nothing in the text, so that is tried then.
"""

from __future__ import annotations

import re
from functools import lru_cache

_ZEROS = str.maketrans("123456789", "0" * 9)
# What holds digits in a pattern that are no characters of a text: codes of characters, other escapes, how often
# something is repeated, and sets of all digits.
_DIGIT = re.compile(r"\\x[0-9a-fA-F]{2}|\\.|\{\d*,?\d*\}|0-9|[1-9]", re.DOTALL)


def form_of(text: str) -> str:
    """The text with each digit as a 0."""
    return text.translate(_ZEROS)


@lru_cache(maxsize=256)
def for_forms(pattern: re.Pattern[str]) -> re.Pattern[str]:
    """The pattern for forms. What must not stand at a place may name no digit: a test looks at each pattern."""
    source = _DIGIT.sub(lambda found: "0" if found.group().isdigit() else found.group(), pattern.pattern)
    return pattern if source == pattern.pattern else re.compile(source, pattern.flags)
