"""Docs that cannot rot: generated pages are fresh, links lead somewhere, every code and command is documented."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tpuprof.errors import Code
from tpuprof.report.schema import Report

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(ROOT / "docs").glob("*.md"),
    *ROOT.glob("sample_traces/*.md"),
]


def test_generated_pages_are_fresh():
    subprocess.run([sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], check=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_every_capture_code_is_explained():
    text = (ROOT / "docs" / "capture.md").read_text("utf-8")
    shown = {code.value for code in Code if code.value.startswith("capture-")} - {
        "capture-failed",
        "capture-cannot-connect",
    }
    assert {code for code in shown if f"`{code}`" not in text} == set()


def test_every_field_of_the_report_is_described():
    text = (ROOT / "docs" / "report.md").read_text("utf-8")
    assert [name for name in Report.__dataclass_fields__ if f"`{name}`" not in text] == []


def test_every_part_and_verdict_is_described():
    from tpuprof.parts import NAMES, WORDS

    text = (ROOT / "docs" / "analysis.md").read_text("utf-8")
    assert [name for name in (*NAMES, *WORDS) if f"`{name}`" not in text] == []


def test_the_readme_shows_what_a_command_prints():
    """The terminal excerpt is of the real v6e trace; its first line must be what is printed today."""
    traces = ROOT.parent / "shared" / "traces" / "tpu_v6e_host_offload"
    if not traces.is_dir():
        pytest.skip("the real TPU traces are not on this machine (../shared/traces)")
    from tpuprof.analysis.analyze import analyze_run

    assert analyze_run(traces).verdict.sentence in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.shared_traces
def test_the_first_example_is_what_is_printed(shared_traces):
    import io

    from rich.console import Console

    from tpuprof.analysis.analyze import analyze_run
    from tpuprof.render.text import render

    out = io.StringIO()
    render(analyze_run(shared_traces / "tpu_v6e_host_offload"), Console(file=out, width=200))
    printed = iter(line.rstrip() for line in out.getvalue().splitlines())
    example = (
        (ROOT / "README.md").read_text("utf-8").split("```console\n")[1].split("```")[0].splitlines()[1:]
    )
    for line in example:
        assert line in ("", "...") or line.rstrip() in printed, line


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_each_page_begins_with_a_command_or_a_program(page):
    """What stands above it is the title, and a few lines at most."""
    above, fence, rest = page.read_text("utf-8").partition("```")
    assert fence
    assert len(above.splitlines()) <= 8
    kind, _, block = rest.partition("\n")
    assert kind == "python" or (kind == "console" and block.startswith("$ "))
