"""The markdown report, read back by a parser with GitHub's tables."""

import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from tests.report import golden, reports
from tpuprof.analysis.analyze import analyze_run
from tpuprof.render.content import shown_compiles, stake
from tpuprof.render.markdown import GITHUB_LIMIT, code, plain, prose, render_markdown
from tpuprof.report.schema import Cause, CompileRow, Savings
from tpuprof.report.sections import OpsLeftOut


def html(text):
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)


def cells(text):
    """Number of cells of each row, by table."""
    tables = re.findall(r"<table>.*?</table>", html(text), re.DOTALL)
    return [
        {len(re.findall(r"<t[hd]\b", row)) for row in re.findall(r"<tr>.*?</tr>", table, re.DOTALL)}
        for table in tables
    ]


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.0, 20.0, "up to 20 % of"), (10.0, 20.0, "10 % to 20 % of"), (20.0, 20.0, "20 % of")],
)
def test_the_share_of_a_priced_finding_is_that_of_its_price(low, high, said):
    saved = Savings(low, high, "counterfactual", step_low_ms=100 - high, step_high_ms=100 - low)
    assert stake(reports.finding(savings=saved, severity=0.15)) == f"{said} step time to gain"


def test_golden():
    golden.same("report.md", render_markdown(reports.with_findings()))


@pytest.mark.parametrize("name", ["with_findings", "hostile", "report"])
def test_tables_are_tables_and_nothing_else_is_markup(name):
    text = render_markdown(getattr(reports, name)())
    assert all(len(widths) == 1 for widths in cells(text))
    assert len(cells(text)) >= 6
    rendered = html(text)
    found = set(re.findall(r"<([a-z0-9]+)", rendered))
    allowed = {
        "h3",
        "h4",
        "p",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "code",
        "pre",
        "strong",
        "em",
        "ul",
        "li",
    }
    assert found <= allowed | {"details", "summary", "blockquote"}
    outside_code = re.sub(r"<(code|pre).*?</\1>", "", rendered, flags=re.DOTALL)
    assert "@octocat" not in outside_code
    assert not re.search(r"#1\b", outside_code)
    assert "http://" not in outside_code
    assert rendered.count("<details>") == rendered.count("</details>") == 2


@pytest.mark.parametrize("text", ["a`b", "``x", "`", "a|b", " x ", "x\\", "a\nb", "|", "\\|"])
def test_a_name_in_a_code_span_comes_out_as_it_is(text):
    rendered = html(f"| a |\n|---|\n| {code(text)} |\n")
    found = re.search(r"<td><code>(.*?)</code></td>", rendered, re.DOTALL)
    assert found, rendered
    shown = found.group(1).replace("&lt;", "<")
    assert shown.strip() == text.replace("\n", "\ufffd").strip()


@pytest.mark.parametrize(
    "text", ["- a", "1. a", "# a", "> a", "a_b_ *c* [d](e) <f> ~~g~~ `h`", "a | b", "+ a", "=== "]
)
def test_a_sentence_comes_out_as_it_is(text):
    rendered = html(plain(text))
    assert re.sub(r"<.*?>", "", rendered).replace("&lt;", "<").replace("&gt;", ">").strip() == text.strip()
    assert set(re.findall(r"<(\w+)", rendered)) == {"p"}


@pytest.mark.parametrize(
    "text",
    [
        "use `xla.amp` and `a_b`.",
        "`x`",
        "one ` tick",
        "``x`` y",
        "a_b `<i>` <b>",
        "`@octocat` #1",
        "1. `a` b",
        "`a` ` b",
    ],
)
def test_a_rules_text_shows_its_code_as_code(text):
    """GitHub showed the backticks of every fix."""
    rendered = html(prose(text))
    shown = (
        re.sub(r"<.*?>", "", rendered).replace("&lt;", "<").replace("&gt;", ">").replace("\u200b", "").strip()
    )
    found = re.findall("`([^`]+)`", text) if "``" not in text else []
    assert re.findall("<code>(.*?)</code>", rendered.replace("&lt;", "<").replace("&gt;", ">")) == found
    assert shown == (text if not found else re.sub("`([^`]+)`", r"\1", text))
    assert set(re.findall(r"<(\w+)", rendered)) <= {"p", "code"}


def test_a_cut_text_leaves_no_code_open():
    assert prose("use `abcdef`", 9) == "use \\`abc…"


def test_rows_that_the_json_has_not_are_not_said_to_be_in_it():
    """It said "and 1202 more (the JSON has all)" of 1,222 ops, of which the JSON had 1,047."""
    made = reports.report()
    many = replace(made, ops=made.ops * 30)
    rest = OpsLeftOut(175, 0.01)
    ops = len(many.ops)
    assert f"and {ops - 20} more (the JSON has all)" in render_markdown(many)
    text = render_markdown(replace(many, ops_left_out=rest))
    assert f"and {ops - 20} more (the JSON has them), and 175 that take next to no time" in text
    assert "\n\nand 175 that take next to no time" in render_markdown(replace(made, ops_left_out=rest))


def test_every_sample_fits_github(samples):
    for folder in sorted(samples.glob("*/tpuprof")):
        assert len(render_markdown(analyze_run(folder.parent))) < GITHUB_LIMIT


def test_a_huge_report_is_cut_to_what_github_takes():
    long = "x" * 3000
    huge = reports.report(
        name=long,
        compiles=[],
        findings=[reports.finding(f"rule-{index}", why=long, title=long) for index in range(300)],
        warnings=[long] * 500,
    )
    rows = [CompileRow(1, "h", long, long, 0, 1.0, Cause("shape", long), [long]) for _ in range(500)]
    text = render_markdown(reports.report(name=long, findings=huge.findings, warnings=huge.warnings))
    assert len(text) < GITHUB_LIMIT
    assert "more" in text
    assert all(len(widths) == 1 for widths in cells(text))
    assert len(render_markdown(type(huge)(**{**huge.__dict__, "compiles": rows}))) < GITHUB_LIMIT
    environment = {**huge.environment, "run": {"environment": {f"XLA_{n}{long}": long for n in range(900)}}}
    cut = render_markdown(type(huge)(**{**huge.__dict__, "environment": environment}))
    assert len(cut) < GITHUB_LIMIT


def test_a_predicted_run_says_so(samples):
    assert "Predicted, not measured" in render_markdown(analyze_run(samples / "predicted_decoder_scan"))


def test_findings_are_skipped_without_any():
    assert "Findings" not in render_markdown(reports.report())


def test_compiles_of_captured_steps_stand_before_those_of_the_start():
    """Eight of sixteen rows were shown, seven of them of the start, and one of the nine that held the steps up."""
    row = CompileRow(None, "h", "start", "p(1)", 0, 5.0, Cause("first", "the first graph", None, None))
    rows = [row, replace(row, step=3, graph_hash="later"), row]
    report = replace(reports.with_findings(), compiles=rows)
    assert [each.graph_hash for each in shown_compiles(report)] == ["later", "start", "start"]
