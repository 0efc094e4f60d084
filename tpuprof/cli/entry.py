"""Where the `tpuprof` command starts: what `analyze` is to read is being read before the command line is imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

# Options of `analyze` with which it reads a run as a whole; with any other, the command line itself is asked first.
_OPTIONS = frozenset({"--json", "--md", "--no-cache"})


def main() -> None:
    """Run the command line; the console script's entry point."""
    path = to_analyse(sys.argv[1:])
    if path:
        from tpuprof.cli.opening import begin_opening

        begin_opening(path, use_cache="--no-cache" not in sys.argv)
    from tpuprof.cli.main import main as run

    run()


def to_analyse(arguments: Sequence[str]) -> str:
    """What these arguments ask to analyse, empty where that is not plain: the command line itself will tell."""
    if not arguments or arguments[0] != "analyze":
        return ""
    others = [each for each in arguments[1:] if each not in _OPTIONS]
    plain = len(others) == 1 and not others[0].startswith("-") and os.path.exists(others[0])
    return others[0] if plain else ""
