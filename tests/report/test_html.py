"""The html report: what it says, and that it is one harmless file, seen in a real Chromium."""

import base64
import hashlib
from dataclasses import replace
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


def test_every_sample_is_one_small_file_without_requests_and_with_no_script_but_its_own(samples):
    for folder in sorted(samples.glob("*/tpuprof")):
        page = render_html(analyze_run(folder.parent))
        assert len(page.encode()) < MAX_BYTES
        found = tags(page)
        assert not [tag for tag, _ in found if tag in ("link", "iframe", "img", "object", "form")]
        assert [dict(attributes) for tag, attributes in found if tag == "script"] == [{}]
        assert not [
            name for _, attributes in found for name in attributes if name == "src" or name[:2] == "on"
        ]
        ids = {attributes["id"] for _, attributes in found if "id" in attributes}
        links = [attributes["href"] for _, attributes in found if "href" in attributes]
        assert len(links) > 8
        assert all(each[0] == "#" and each[1:] in ids for each in links)


def test_the_policy_names_the_hashes_of_the_style_and_the_script():
    page = render_html(reports.with_findings())
    policy = next(
        each["content"] for tag, each in tags(page) if each.get("http-equiv") == "Content-Security-Policy"
    )
    for tag in ("style", "script"):
        text = page.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}';" in policy
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none';")


def test_the_fix_stands_before_everything_but_the_verdict():
    page = render_html(reports.with_findings())
    first = page.partition('class="first"')[2]
    for text in ("x = pad(batch, 128)", "model.py:41", "12.0 ms to 18.5 ms per step"):
        assert text in first.partition("</section>")[0]
    assert (
        page.index("</h1>")
        < page.index('class="first"')
        < page.index('class="contents"')
        < page.index("<svg")
    )


def test_advice_stands_whole_with_its_code():
    """Names from a trace are cut, the sentences of the report are not: the longest advice has some 1,500 characters."""
    made = reports.with_findings()
    fix = replace(
        made.findings[0].fix, text=f"{'Read it rarely. ' * 90}Call `torch_xla.sync()` after `if a < b:`."
    )
    page = render_html(replace(made, findings=[replace(made.findings[0], fix=fix), *made.findings[1:]]))
    assert "Call <code>torch_xla.sync()</code> after <code>if a &lt; b:</code>." in page
    for text in ("A lone ` is one.", "`<img src=x>`"):
        odd = replace(made, findings=[replace(made.findings[0], why=text)])
        assert text.replace("`<img", "<code>&lt;img").replace(">`", "&gt;</code>") in render_html(odd)


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
    assert page.evaluate("document.querySelectorAll('img, main script').length") == 0
    assert page.evaluate("document.querySelectorAll('body > script').length") == 1
    assert page.evaluate("[...document.links].every(each => each.getAttribute('href')[0] === '#')")
    assert page.problems == []


def column(page, table, at):
    return page.locator(f"{table} tbody tr:visible").evaluate_all(
        "(rows, at) => rows.map(row => row.cells[at].innerText)", at
    )


def test_tables_are_sorted_and_filtered_in_the_page(chromium, samples, tmp_path):
    path = tmp_path / "r.html"
    path.write_text(render_html(analyze_run(samples / "decoder_loop")), "utf-8")
    page = opened(chromium, path)
    ops = "[aria-label^='Ops by device']"
    before = column(page, ops, 0)
    button = page.locator(f"{ops} th button").nth(3)
    button.click()
    times = [int(each) for each in column(page, ops, 3)]
    assert times == sorted(times, reverse=True)
    assert page.locator(f"{ops} th[aria-sort=descending]").count() == 1
    button.click()
    assert [int(each) for each in column(page, ops, 3)] == sorted(times)
    button.click()
    assert column(page, ops, 0) == before
    # By value, not by text: "8.09 ms" is more than "900 µs".
    parts = "[aria-label='Parts of a step']"
    for _ in range(2):
        page.locator(f"{parts} th button").nth(2).click()
    names, times = (column(page, parts, at) for at in (1, 3))
    assert names[-1] == "tracing"
    assert [each.split()[1] for each in times][-4:] == ["µs", "ms", "ms", "ms"]
    page.get_by_label("Filter rows: Ops by device").fill("layers.0 dot")
    left = column(page, ops, 0)
    assert 0 < len(left) < len(before)
    assert f"{len(left)} of {len(before)} rows" in page.inner_text("main")
    assert page.problems == []
    page.close()


def test_the_contents_lead_to_their_parts_and_nothing_needs_the_script(chromium, tmp_path):
    path = tmp_path / "r.html"
    path.write_text(render_html(reports.with_findings()), "utf-8")
    page = opened(chromium, path, java_script_enabled=False)
    page.get_by_role("navigation").get_by_role("link", name="Findings").click()
    assert page.url.partition("#")[2].startswith("part-")
    assert page.locator("button, input").count() == 0
    assert page.get_by_text("Input shapes change").first.is_visible()
    page.close()
