"""Colour and pattern of parts of the breakdown and of the timeline's other lanes, as plotly's markers."""

from __future__ import annotations

from tpuprof.report.part_style import style_of as style_of_part

# Lanes of the timeline that are no part of the breakdown (colour, plotly pattern).
_LANES = {
    "step": ("#868E96", ""),
    "program": ("#7FCDB5", ""),
    "loop or call": ("#B6A5D8", ""),
    "host event": ("#E0A96D", ""),
    "annotation": ("#B07AA1", "-"),
}


def style_of(part: str) -> tuple[str, str]:
    """(colour, plotly pattern) of a part or lane; the user's annotations share one."""
    return _LANES.get(part) or style_of_part(part)


def marker_of(part: str) -> dict[str, object]:
    """A part's style as plotly's `marker`."""
    colour, pattern = style_of(part)
    return {"color": colour, "pattern": {"shape": pattern, "solidity": 0.25}, "line": {"width": 0}}
