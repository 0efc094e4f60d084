"""The html report: what it says, and that it is one harmless file, seen in a real Chromium."""

from html.parser import HTMLParser

import pytest

from tests.report import golden, reports
from tpuprof.analysis.analyze import analyze_run
from tpuprof.render.html import render_html

# What a mail server takes without a murmur (bytes).
MAX_BYTES = 2_000_000


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def tags(page):
    parser = Tags()
    parser.feed(page)
    return parser.found


def test_golden():
    golden.same("report.html", render_html(reports.with_findings()))


def test_every_sample_is_one_small_file_without_scripts_or_requests(samples):
    for folder in sorted(samples.glob("*/tpuprof")):
        page = render_html(analyze_run(folder.parent))
        assert len(page.encode()) < MAX_BYTES
        found = tags(page)
        assert not [tag for tag, _ in found if tag in ("script", "link", "iframe", "img", "object", "form")]
        assert not [
            name
            for _, attributes in found
            for name in attributes
            if name in ("src", "href") or name[:2] == "on"
        ]


def test_a_long_run_stays_small():
    walls = [10.0 + index % 7 for index in range(20_000)]
    page = render_html(reports.report(walls=walls))
    assert len(page.encode()) < MAX_BYTES
    assert "each bar is the mean of about 83 of 20000 steps" in page


def test_a_predicted_run_says_so(samples):
    predicted = render_html(analyze_run(samples / "predicted_decoder_loop"))
    measured = render_html(analyze_run(samples / "decoder_loop"))
    assert "Predicted, not measured: device times" in predicted
    assert "Predicted, not measured" not in measured


def test_findings_show_and_their_section_is_skipped_without_any():
    page = render_html(reports.with_findings())
    for text in (
        "Input shapes change",
        "31 %",
        "12.0 ms to 18.5 ms per step",
        "model.py:41",
        "x = pad(batch, 128)",
    ):
        assert text in page
    assert page.index("Input shapes change") < page.index("A value is read back each step")
    assert "1 could not be checked" in page
    assert "no memory profile" in page
    assert ">Findings<" not in render_html(reports.report())
    passed = [reports.finding(status="passed")]
    assert "No rule has a fix for what the verdict names" in render_html(reports.report(findings=passed))


def test_a_run_without_steps_says_why():
    page = render_html(reports.report(walls=()))
    assert "Unavailable: no step marker was found" in page


def test_one_slow_step_does_not_flatten_the_others():
    page = render_html(reports.with_findings())
    assert "↑ 440 ms" in page


def opened(chromium, path, **more):
    page = chromium.new_page(viewport={"width": 1000, "height": 900}, **more)
    page.problems = []
    page.on("console", lambda message: page.problems.append(message.text))
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("dialog", lambda dialog: page.problems.append("a dialog opened"))
    page.on(
        "request", lambda request: page.problems.append(request.url) if request.url[:4] != "file" else None
    )
    page.goto(f"file://{path}")
    return page


def ground(page):
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(int(part) for part in colour.strip("rgb()").split(",")) / 3


@pytest.mark.parametrize("name", ["with_findings", "hostile"])
def test_light_and_dark_in_a_browser(chromium, tmp_path, name):
    path = tmp_path / "r.html"
    path.write_text(render_html(getattr(reports, name)()), "utf-8")
    for scheme, bright in (("light", True), ("dark", False)):
        page = opened(chromium, path, color_scheme=scheme)
        assert page.problems == []
        assert (ground(page) > 127) is bright
        # Nothing is wider than the page: no sideways scrolling.
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate("document.querySelectorAll('svg rect').length") > 5
        page.close()


def test_print_is_white_and_opens_what_is_folded(chromium, tmp_path):
    path = tmp_path / "r.html"
    path.write_text(render_html(reports.with_findings()), "utf-8")
    page = opened(chromium, path, color_scheme="dark")
    hidden = page.evaluate(
        "document.querySelector('details ul').checkVisibility({contentVisibilityAuto: true})"
    )
    page.emulate_media(media="print")
    assert ground(page) == 255
    shown = page.evaluate("document.querySelector('details ul').getBoundingClientRect().height")
    assert shown > 0
    assert not hidden
    assert page.pdf()[:5] == b"%PDF-"


def test_hostile_names_are_text(chromium, tmp_path):
    page_text = render_html(reports.hostile())
    assert "<img" not in page_text
    assert "\x00" not in page_text
    path = tmp_path / "r.html"
    path.write_text(page_text, "utf-8")
    page = opened(chromium, path)
    assert "onerror=alert(1)" in page.inner_text("h1")
    assert page.evaluate("document.querySelectorAll('img, script, a').length") == 0
    assert page.problems == []
