"""Reads what PT_XLA_DEBUG prints: why graphs were compiled, with Python frames, sizes and ops not lowered.

Every line carries its section's name, so text mixed with a program's own output reads all the same. Both
wordings are known: `user mark_step` (torch_xla up to 2.5) and `user torch_xla.sync` (later).
"""

from __future__ import annotations

import re
from dataclasses import field

from tpuprof.records import record

_LINE = re.compile(r"^(?P<section>(?:Post )?(?:Compilation|Execution) Analysis): ?(?P<text>.*)$")
_SIZE = re.compile(r"^(?P<what>[A-Za-z ]+?) size: (?P<number>[\d.]+) GB")
_NOT_LOWERED = re.compile(r"pt-xla-profiler: Op\(s\) not lowered: (?P<ops>.*?)\s+Please open")
# torch_xla prints sizes in units of 2^30 bytes and calls them GB (debug_util.cpp).
_GIB = 1 << 30
_KINDS = {
    "Graph input": "arguments",
    "Graph output": "outputs",
    "Aliased Input": "aliased",
    "Intermediate tensor": "temporaries",
    "Compiled program": "code",
}
_FRAMES = "Python Frame Triggered Execution:"


@record
class DebugCompile:
    """One compilation: its cause in torch_xla's words, hash and name of the graph, frames innermost first.

    `sizes` has bytes by kind (arguments, outputs, aliased, temporaries, code), empty where not printed.
    """

    cause: str = ""
    graph_hash: str = ""
    graph_name: str = ""
    inputs: int | None = None
    outputs: int | None = None
    frames: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)


@record
class DebugText:
    """All that the text tells; `not_lowered` are ops that ran on the CPU."""

    compiles: list[DebugCompile] = field(default_factory=list)
    not_lowered: list[str] = field(default_factory=list)


def parse_debug_text(text: str) -> DebugText:
    """Read any text that may hold PT_XLA_DEBUG output; other lines are passed over."""
    found = DebugText()
    block: list[str] = []
    section = ""
    for line in text.splitlines():
        ops = _NOT_LOWERED.search(line)
        if ops:
            found.not_lowered += [op.strip() for op in ops["ops"].split(",") if op.strip()]
        match = _LINE.match(line.strip("\r"))
        if match is None:
            continue
        if match["section"] != section:
            section, block = match["section"], []
        if match["text"].startswith("===="):
            _take(found, section, block)
            block = []
        else:
            block.append(match["text"])
    found.not_lowered = list(dict.fromkeys(found.not_lowered))
    return found


def _take(found: DebugText, section: str, block: list[str]) -> None:
    if section == "Compilation Analysis" and block:
        found.compiles.append(_compile(block))
    elif section == "Post Compilation Analysis" and block and found.compiles:
        found.compiles[-1].sizes = _sizes(block)


def _compile(block: list[str]) -> DebugCompile:
    each = DebugCompile()
    place = ""
    for line in block:
        text = line.strip()
        if text in ("Compilation Cause", "Graph Info:", _FRAMES):
            place = text
        elif place == "Compilation Cause" and not each.cause:
            each.cause = text.replace("`", "")
        elif place == "Graph Info:":
            _graph_fact(each, text)
        elif place == _FRAMES and text and not text.startswith(("-", "..")):
            each.frames.append(text)
    return each


def _graph_fact(each: DebugCompile, text: str) -> None:
    name, _, value = (part.strip() for part in text.partition(":"))
    if name == "Graph Hash":
        each.graph_hash = value
    elif name == "Graph Name":
        each.graph_name = value
    elif name == "Number of Graph Inputs" and value.isdigit():
        each.inputs = int(value)
    elif name == "Number of Graph Outputs" and value.isdigit():
        each.outputs = int(value)


def _sizes(block: list[str]) -> dict[str, int]:
    sizes = {}
    for line in block:
        match = _SIZE.match(line.strip())
        if match and match["what"].strip() in _KINDS:
            sizes[_KINDS[match["what"].strip()]] = round(float(match["number"]) * _GIB)
    return sizes
