"""Where the `tpuprof` command starts: a plain `analyze` is done without importing the command line's library."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

# Options of a plain analysis; with any other, the command line itself is asked.
_JSON, _MARKDOWN, _NO_CACHE = "--json", "--md", "--no-cache"
_OPTIONS = frozenset({_JSON, _MARKDOWN, _NO_CACHE})
# The run that analyses are compared with, chosen once for a shell.
BASE_VARIABLE = "TPUPROF_BASE"


class Plain(NamedTuple):
    """An analysis asked for in the plainest way: of one path, with no more than these options."""

    path: str
    options: frozenset[str]


def main() -> None:
    """Run the command line; the console script's entry point."""
    asked = to_analyze([each for each in sys.argv[1:] if each != "--debug"])
    if asked:
        from tpuprof.cli.guard import guarded

        guarded(partial(_analyze, asked))
        return
    from tpuprof.cli.main import main as run

    run()


def to_analyze(arguments: Sequence[str]) -> Plain | None:
    """What these arguments ask to analyze, None where that is not plain: the command line itself will tell."""
    if not arguments or arguments[0] != "analyze" or os.environ.get(BASE_VARIABLE):
        return None
    options = _OPTIONS.intersection(arguments)
    others = [each for each in arguments[1:] if each not in _OPTIONS]
    if {_JSON, _MARKDOWN} <= options or len(others) != 1 or not others[0] or others[0].startswith("-"):
        return None
    return Plain(others[0], options)


def _analyze(asked: Plain) -> None:
    from pathlib import Path

    from tpuprof.cli.analysis import print_analysis

    print_analysis(
        Path(asked.path),
        as_json=_JSON in asked.options,
        as_markdown=_MARKDOWN in asked.options,
        use_cache=_NO_CACHE not in asked.options,
    )
