"""Colour and pattern of parts of the breakdown and of the timeline's other lanes, as plotly's markers."""

from __future__ import annotations

from tpuprof.parts import style_of as style_of_part

# Lanes of the timeline that are not part of the breakdown (colour, plotly pattern).
_LANES = {
    "step": ("#868E96", ""),
    "program": ("#7FCDB5", ""),
    "loop or call": ("#B6A5D8", ""),
    "host event": ("#E0A96D", ""),
    "annotation": ("#C9A5BF", ""),
    "evidence": ("#D55E00", "/"),
    "note": ("#9C7AC9", ""),
    "host offload": style_of_part("offload_exposed"),
    "collective": style_of_part("collective_exposed"),
}
# How much of a bar its pattern covers (share); of bars that hold text, less.
_SOLIDITY, _FAINT_SOLIDITY = 0.25, 0.1


def style_of(part: str) -> tuple[str, str]:
    """(colour, plotly pattern) of a part or lane; the user's annotations share one."""
    return _LANES.get(part) or style_of_part(part)


def marker_of(part: str, *, faint: bool = False, plain: bool = False) -> dict[str, object]:
    """A part's style as plotly's `marker`; `faint` patterns leave text on the bar readable, `plain` has none."""
    colour, pattern = style_of(part)
    if plain:
        return {"color": colour, "line": {"width": 0}}
    solidity = _FAINT_SOLIDITY if faint else _SOLIDITY
    return {"color": colour, "pattern": {"shape": pattern, "solidity": solidity}, "line": {"width": 0}}
