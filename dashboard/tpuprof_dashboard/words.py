"""What the model's terms are called on screen, and how unknown values are shown."""

from __future__ import annotations

from tpuprof import parts
from tpuprof.report import labels

UNAVAILABLE = "unavailable"
# What lanes of the timeline hold in addition to parts of the breakdown.
_LANES = {
    "step": "Step",
    "program": "Program",
    "loop or call": "Loop or call",
    "host event": "Host event",
    "annotation": "Annotation",
    "evidence": "Evidence",
    "note": "Note",
    "host offload": "Host offload",
    "collective": "Collective",
}


def capital(text: str) -> str:
    """A text with its first letter a capital one, the others as they are."""
    return text[:1].upper() + text[1:]


STATUS_TITLES = {status: capital(words) for status, words in labels.STATUS_WORDS.items()}


def part_title(part: str) -> str:
    """The title of a part of the breakdown, or of what else a lane of the timeline holds."""
    return _LANES.get(part) or parts.title_of(part)


def part_definition(part: str) -> str:
    """What a part is, in words for those who meet the term here for the first time."""
    return f"{capital(parts.meaning_of(part))}."


def reason(text: str) -> str:
    """Why a value cannot be known, without the word that stands beside it anyway."""
    return text.removeprefix(f"{UNAVAILABLE}: ")


def plain(text: str) -> str:
    """Text for plotly, whose labels and hovers read some HTML and templates: both made harmless."""
    for old, new in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("%{", "% {")):
        text = text.replace(old, new)
    return text


def short(text: str, most: int = 80) -> str:
    """A text cut in its middle to `most` characters."""
    if len(text) <= most:
        return text
    head = (most - 1) * 2 // 3
    return f"{text[:head]}…{text[-(most - 1 - head) :]}"


def byte_unit(largest: float) -> tuple[int, str]:
    """(bytes of it, its name) of the unit in which a chart up to so many bytes is read best."""
    units = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
    return next(((size, name) for size, name in units if largest >= size), (1, "bytes"))
