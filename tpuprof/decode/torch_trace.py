"""Reads the log that TorchTPU writes where TORCH_TRACE is set: the programs it compiled, with the lines that asked.

A record is a line of JSON behind a prefix, and its payload the lines after it that begin with a tab.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from tpuprof.records import record
from tpuprof.run_folder import TORCH_TRACE_LOGS

_HEAD = re.compile(r"^V\d{4} [^\]]*\] (\{.*\})$")
_MODULE = re.compile(r"module @([\w.$-]+)")
_ARGUMENT = re.compile(r"%arg\d+: tensor<([^<>]*)>")
_LINE = re.compile(r"# (\S.{0,400}:\d+) in ")
GRAPH, PROGRAM = "torchtpu_eager_aten_graph", "torchtpu_eager_stablehlo"
# Programs kept of a log, and characters of a program's text: a log of a long run may be of any size.
MOST_PROGRAMS, MOST_TEXT = 5_000, 200_000


@record(frozen=True)
class TracedProgram:
    """A program that was compiled: its name, the types of its inputs (`32x256xf32`), its ops, and the user's lines.

    `reason` is why TorchTPU ran what was deferred until then: `item()`, `.cpu()`, debug_mode.
    """

    name: str
    inputs: tuple[str, ...]
    body: str
    sources: tuple[str, ...]
    reason: str


def read_torch_trace(folder: Path) -> list[TracedProgram]:
    """Programs compiled in the order of the logs in a folder; what is damaged in them is passed over."""
    found: list[TracedProgram] = []
    for path in sorted(folder.glob(TORCH_TRACE_LOGS)):
        found += _programs(path)
    return found[:MOST_PROGRAMS]


def _programs(path: Path) -> Iterator[TracedProgram]:
    sources: tuple[str, ...] = ()
    for kind, facts, payload in _records(path):
        if kind == GRAPH:
            sources = tuple(_LINE.findall(payload))
        elif kind == PROGRAM and facts.get("cache_hit") is False and (name := _MODULE.search(payload)):
            head, _, body = payload.partition(" -> ")
            yield TracedProgram(
                name.group(1), tuple(_ARGUMENT.findall(head)), body, sources, str(facts.get("reason") or "")
            )


def _records(path: Path) -> Iterator[tuple[str, dict[str, object], str]]:
    """(name, facts, payload) of each artifact of a log."""
    facts: dict[str, object] = {}
    lines: list[str] = []
    size = 0
    with path.open(encoding="utf-8", errors="replace") as log:
        for line in log:
            if line.startswith("\t"):
                if facts and size < MOST_TEXT:
                    lines.append(line[1:])
                    size += len(line)
                continue
            if facts:
                yield str(facts.get("name")), facts, "".join(lines)
            facts, lines, size = _artifact(line), [], 0
    if facts:
        yield str(facts.get("name")), facts, "".join(lines)


def _artifact(line: str) -> dict[str, object]:
    head = _HEAD.match(line.rstrip("\n"))
    try:
        found = json.loads(head.group(1)).get("artifact") if head else None
    except (ValueError, RecursionError, AttributeError):
        found = None
    return found if isinstance(found, dict) and found.get("name") in (GRAPH, PROGRAM) else {}
