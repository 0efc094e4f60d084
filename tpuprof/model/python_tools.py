"""Debugging tools that were on while a program was captured, as its run.json lists them."""

from __future__ import annotations

from typing import Any

# Checks each gradient for a NaN.
ANOMALY = "torch.autograd.set_detect_anomaly"
# Words of the verdict that such a tool can make: it slows the host's work, has each result checked, or lets nothing
# that was compiled be used again.
_MADE_BY_TOOLS = ("tracing", "dispatch", "host", "input", "sync", "compile", "annotation", "undecided")


def python_tools(info: dict[str, Any]) -> list[str] | None:
    """Names of the tools, None where the capture did not look for any."""
    capture = info.get("capture")
    found = capture.get("python_tools") if isinstance(capture, dict) else None
    return [str(each) for each in found] if isinstance(found, list) else None


def said_of_tools(tools: list[str]) -> str:
    """The tools and their verb, as the beginning of a sentence."""
    return f"{' and '.join(tools)} {'was' if len(tools) == 1 else 'were'} on"


def said_with_the_verdict(info: dict[str, Any], word: str) -> str:
    """What a verdict on the host's work adds where a tool slows that; else nothing."""
    tools = python_tools(info)
    if not tools or word not in _MADE_BY_TOOLS:
        return ""
    slows, without = ("slows", "it") if len(tools) == 1 else ("slow", "them")
    return (
        f" {said_of_tools(tools)}, which {slows} the host: how long it takes without is unknown. Capture again without "
        f"{without} before you change anything else."
    )
