"""The page's whole state, kept in the URL's query so that a view can be shared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, quote, unquote, urlencode

# What stays when the page changes; all else belongs to one page.
_SHARED = ("run", "base", "theme")
# A query longer than this is not a link of ours (characters).
_LONGEST = 8_192

# Stands between several names in one parameter.
_BETWEEN = "|"

State = dict[str, str]


def read_state(search: str | None) -> State:
    """The parameters of a URL's query; of repeated ones the last."""
    return dict(parse_qsl((search or "").removeprefix("?")[:_LONGEST]))


def search_of(state: Mapping[str, str], **changes: str | None) -> str:
    """The query of a state with changes; None removes a parameter."""
    merged = {**state, **changes}
    return "?" + urlencode({key: value for key, value in merged.items() if value})


def theme_of(state: Mapping[str, str], os_dark: bool | None) -> str:
    """The theme that the address names, else the operating system's: `light` or `dark`."""
    named = state.get("theme")
    return named if named in ("light", "dark") else "dark" if os_dark else "light"


def page_search(state: Mapping[str, str], page: str, **changes: str | None) -> str:
    """The query of another page of the same run and theme."""
    kept = {key: state[key] for key in _SHARED if key in state}
    return search_of({"page": page, **kept}, **changes)


def names_in(state: Mapping[str, str], key: str) -> list[str]:
    """A parameter that holds several names: each is escaped, so that any may hold what stands between them."""
    return [unquote(each) for each in state.get(key, "").split(_BETWEEN) if each]


def names_text(names: Iterable[str]) -> str | None:
    """Several names as one parameter, None of none."""
    return _BETWEEN.join(quote(each, safe="/") for each in names) or None


def integer(state: Mapping[str, str], key: str) -> int | None:
    """A parameter as an integer, None where it is absent or none."""
    text = state.get(key, "")
    return int(text) if text.removeprefix("-").isdecimal() and len(text) < 20 else None
