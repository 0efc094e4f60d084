"""What `tpuprof analyze` prints. Knows nothing of the command line, so that a plain analysis need not import it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tpuprof.cli.entry import BASE_VARIABLE
from tpuprof.cli.opening import here, open_json, open_report
from tpuprof.cli.process import leave_at_once
from tpuprof.errors import Code, TpuprofError

if TYPE_CHECKING:
    from tpuprof.report.schema import Report


def print_analysis(
    path: Path,
    *,
    as_json: bool,
    as_markdown: bool,
    use_cache: bool,
    all_ops: bool = False,
    why: bool = False,
    base: str = "",
) -> None:
    """Print the Report of a run as `print_report` does, and let the process end at once; `base` is a path, or empty.

    Of a compiler's dump or a program's file it prints what that says. Raises `TpuprofError`.
    """
    leave_at_once()
    try:
        if as_json and not base:
            _write(open_json(path, use_cache=use_cache, all_ops=all_ops))
            return
        report = open_report(path, use_cache=use_cache, all_ops=all_ops)
    except TpuprofError as error:
        if error.code not in (Code.NO_TRACE, Code.UNKNOWN_FORMAT) or not print_programs(
            here(path), as_json=as_json
        ):
            raise
        return
    against = open_base(base, use_cache=use_cache)
    print_report(report, as_json=as_json, as_markdown=as_markdown, why=why, base=against)


def open_base(base: str, *, use_cache: bool) -> Report | None:
    """The report to compare with, None where there is none; an error says where the path comes from."""
    if not base:
        return None
    try:
        return open_report(Path(base), use_cache=use_cache)
    except TpuprofError as error:
        if base != os.environ.get(BASE_VARIABLE):
            raise
        hint = f"{error.hint} Without {BASE_VARIABLE} nothing is compared."
        raise TpuprofError(error.code, f"{BASE_VARIABLE}: {error.message}", hint.strip()) from error


def print_report(
    report: Report, *, as_json: bool, as_markdown: bool, why: bool = False, base: Report | None = None
) -> None:
    """Print a Report as text unless asked otherwise; of the text alone, `why` prints how the verdict was reached.

    With `base`, what changed since that run follows; in JSON it is `comparison`.
    """
    if as_json:
        from tpuprof.report.as_json import to_json

        _write(to_json(report) if base is None else _with_comparison(report, base))
        return
    if as_markdown:
        from tpuprof.render.markdown import render_markdown

        _write(render_markdown(report))
    else:
        _print_text(report, why=why)
    if base is not None:
        _print_changes(base, report, as_markdown=as_markdown)


def _print_text(report: Report, *, why: bool) -> None:
    from tpuprof.cli.terminal import console

    if why:
        from tpuprof.render.text_triage import render_why

        render_why(report, console())
        return
    from tpuprof.render.text import render

    render(report, console())


def _print_changes(base: Report, report: Report, *, as_markdown: bool) -> None:
    from tpuprof.compare.diff import diff
    from tpuprof.compare.text import render, render_markdown

    found = diff(base, report)
    if as_markdown:
        _write("\n" + render_markdown(found))
        return
    from tpuprof.cli.terminal import console

    console().print("\nAgainst the base run", style="bold")
    render(found, console())


def _with_comparison(report: Report, base: Report) -> str:
    import json

    from tpuprof.compare.diff import diff
    from tpuprof.report.as_json import to_json

    whole = {**json.loads(to_json(report)), "comparison": diff(base, report).to_dict()}
    return json.dumps(whole, indent=1, allow_nan=False) + "\n"


def print_programs(path: Path, *, as_json: bool) -> bool:
    """Print what HLO or StableHLO says without a capture; False where the path holds neither."""
    from tpuprof.preflight.program_files import AFTER, find_programs, read_programs

    source = find_programs(path)
    if source is None or source.kind == "capture":
        return False
    from tpuprof.preflight.compiler import CompileOptions
    from tpuprof.preflight.hlo_report import hlo_report, render_reports, report_dict

    programs = read_programs(source, CompileOptions(), AFTER, to_compile=False)
    reports = [hlo_report(each) for each in programs]
    if as_json:
        import json

        _write(json.dumps(report_dict(reports), indent=1, allow_nan=False) + "\n")
        return True
    from tpuprof.cli.terminal import console

    render_reports(reports, console())
    return True


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
