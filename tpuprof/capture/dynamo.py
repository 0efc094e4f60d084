"""Where torch.compile broke the graph, and why it compiled again, as dynamo itself has noted it; nothing is asked."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tpuprof.instrument.state import pass_on

# After a break dynamo goes on with a function of its own, called by the function and the line of the break.
_RESUMED = re.compile(r"torch_dynamo_resume_in_(?P<function>.+)_at_(?P<line>\d+)$")
# Functions of ours, which wrap reads while a capture runs: dynamo gives them up, and the program has no such break.
_OWN = f"{Path(__file__).resolve().parents[1]}/"
# Rows kept of each kind (rows), and characters of a reason.
MOST_ROWS, MOST_TEXT = 50, 300


class NewGraphs:
    """Tells step by step whether torch.compile made a graph: the framework need not compile for it again.

    A module that counts its calls in an int attribute makes dynamo compile in each step, for half a second of Python,
    until it gives up.
    """

    def __init__(self) -> None:
        self._last = self._so_far()

    def came(self) -> bool:
        """Whether dynamo made a graph since the last call."""
        before, self._last = self._last, self._so_far()
        return self._last != before

    def _so_far(self) -> int:
        try:
            return int(_counters().get("stats", {}).get("unique_graphs", 0))
        except Exception as error:  # another release of torch may count it otherwise
            pass_on(error)
            return 0


def compiled_functions() -> bool:
    """Whether torch.compile compiled a function: it would compile it again under a mode."""
    return bool(_counters().get("frames"))


def _counters() -> Any:
    """What dynamo counts; empty where it is not imported."""
    return getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})


def notes() -> dict[str, list[dict[str, str]]]:
    """`breaks`, `recompiles` and `limits`, each with source and reason; empty where dynamo made or notes nothing."""
    utils: Any = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return {}
    try:
        rows = [
            each
            for each in utils.get_compilation_metrics()
            if getattr(each, "is_forward", True) and not str(each.co_filename).startswith(_OWN)
        ]
        recompiles = _recompiles(rows)
        found = {"breaks": _breaks(rows), "recompiles": recompiles, "limits": _limits(recompiles)}
    except Exception as error:  # another release of torch may note it otherwise
        pass_on(error)
        return {}
    return {kind: each[:MOST_ROWS] for kind, each in found.items() if each}


def warnings(noted: dict[str, list[dict[str, str]]]) -> list[str]:
    """A sentence for each function that dynamo compiled as often as it may: further calls of others run op by op."""
    return [
        f"torch.compile compiled the function at {each['source']} {each['times']} times, as often as "
        f"torch._dynamo.config.recompile_limit allows: calls that fit none of these run op by op. The last time "
        f"it compiled, this did not hold: {each['reason']}"
        for each in noted.get("limits", [])
    ]


def _limits(recompiles: list[dict[str, str]]) -> list[dict[str, str]]:
    """The functions that dynamo compiled as often as it may, how often that is, and what did not hold the last time."""
    try:
        limit = int(getattr(sys.modules.get("torch._dynamo.config"), "recompile_limit", 0))
    except (TypeError, ValueError) as error:  # another release of torch may hold something else there
        pass_on(error)
        return []
    found = Counter(each["source"] for each in recompiles)
    last = {each["source"]: " ".join(each["reason"].partition("#")[0].split()) for each in recompiles}
    return [
        {"source": source, "times": str(times + 1), "reason": last[source]}
        for source, times in found.items()
        if limit and times >= limit - 1
    ]


def _breaks(rows: list[Any]) -> list[dict[str, str]]:
    """Each line at which a function was left and resumed, and each function that was given up, once."""
    found: dict[str, dict[str, str]] = {}
    reason = ""
    for row in rows:
        resumed = _RESUMED.match(str(row.co_name or ""))
        if resumed:
            source = f"{row.co_filename}:{resumed['line']}"
            found.setdefault(source, {"source": source, "reason": reason, "function": resumed["function"]})
        elif row.fail_reason:
            source = f"{row.co_filename}:{row.co_firstlineno}"
            why = _short(row.fail_reason)
            found.setdefault(source, {"source": source, "reason": why, "function": str(row.co_name)})
        # Dynamo restarts a function where it breaks: the function that comes next resumes there.
        reason = _short(next(iter(sorted(map(str, row.restart_reasons or ()))), ""))
    return list(found.values())


def _recompiles(rows: list[Any]) -> list[dict[str, str]]:
    return [
        {"source": f"{row.co_filename}:{row.co_firstlineno}", "reason": _short(row.recompile_reason)}
        for row in rows
        if row.recompile_reason
    ]


def _short(reason: object) -> str:
    """The first line, without the address of an object."""
    lines = str(reason or "").strip().splitlines()
    return re.sub(r" at 0x[0-9a-f]+", "", lines[0])[:MOST_TEXT] if lines else ""
