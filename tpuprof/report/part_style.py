"""Colour and hatching of each part of the breakdown in charts of a report, for light and dark ground."""

from __future__ import annotations

# Okabe and Ito's palette, distinguishable with colour-vision deficiencies; idle parts are hatched besides, so
# that colour is never the only signal. (colour, hatching: "", "/", "\\", "x", "|", "-", ".")
_STYLES = {
    "compute": ("#009E73", ""),
    "other_device": ("#7FCDB5", ""),
    "collective_exposed": ("#CC79A7", "/"),
    "offload_exposed": ("#0072B2", "\\"),
    "infeed_outfeed": ("#56B4E9", "-"),
    "tracing": ("#E69F00", "x"),
    "compile": ("#D55E00", "|"),
    "input_wait": ("#56B4E9", "."),
    "host_to_device": ("#0072B2", "."),
    "device_to_host_sync": ("#CC79A7", "x"),
    "dispatch": ("#F0E442", "|"),
    "unknown": ("#999999", ""),
}
_USER = ("#B07AA1", "-")


def style_of(part: str) -> tuple[str, str]:
    """(colour, hatching) of a part; the user's annotations share one."""
    return _STYLES.get(part, _USER)
