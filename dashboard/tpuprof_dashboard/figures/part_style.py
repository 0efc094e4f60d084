"""Colour and pattern of each part of the breakdown; the pattern carries the difference without colour."""

from __future__ import annotations

# Okabe and Ito's palette, distinguishable with colour-vision deficiencies; device parts are plain.
_STYLES = {
    "compute": ("#009E73", ""),
    "other_device": ("#7FCDB5", ""),
    "collective_exposed": ("#CC79A7", "/"),
    "offload_exposed": ("#0072B2", "\\"),
    "infeed_outfeed": ("#56B4E9", "-"),
    "tracing": ("#E69F00", "x"),
    "compile": ("#D55E00", "+"),
    "input_wait": ("#56B4E9", "."),
    "host_to_device": ("#0072B2", "."),
    "device_to_host_sync": ("#CC79A7", "x"),
    "dispatch": ("#F0E442", "|"),
    "unknown": ("#999999", ""),
    # lanes of the timeline that are no part of the breakdown
    "step": ("#868E96", ""),
    "program": ("#7FCDB5", ""),
    "loop or call": ("#B6A5D8", ""),
    "host event": ("#E0A96D", ""),
    "annotation": ("#B07AA1", "-"),
}
_USER = ("#B07AA1", "-")


def style_of(part: str) -> tuple[str, str]:
    """(colour, plotly pattern) of a part; the user's annotations share one."""
    return _STYLES.get(part, _USER)


def marker_of(part: str) -> dict[str, object]:
    """A part's style as plotly's `marker`."""
    colour, pattern = style_of(part)
    return {"color": colour, "pattern": {"shape": pattern, "solidity": 0.25}, "line": {"width": 0}}
