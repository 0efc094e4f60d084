"""What `tpuprof analyze` prints. Knows nothing of the command line, so that a plain analysis need not import it."""

from __future__ import annotations

import sys
from pathlib import Path

from tpuprof.cli.opening import open_json, open_report
from tpuprof.cli.process import leave_at_once


def print_analysis(
    path: Path, *, as_json: bool, as_markdown: bool, use_cache: bool, all_ops: bool = False
) -> None:
    """Print the Report of a run, as text unless asked otherwise, and let the process end at once.

    Raises `TpuprofError`.
    """
    leave_at_once()
    if as_json:
        _write(open_json(path, use_cache=use_cache, all_ops=all_ops))
        return
    report = open_report(path, use_cache=use_cache, all_ops=all_ops)
    if as_markdown:
        from tpuprof.render.markdown import render_markdown

        _write(render_markdown(report))
        return
    from tpuprof.cli.terminal import console
    from tpuprof.render.text import render

    render(report, console())


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
