"""How soon the dashboard shows a large trace's first screen, and how long its server takes for each interaction.

    python benchmarks/dashboard_responses.py [--events 3] [--repeats 5] [--work FOLDER] [--chromium PATH]

The trace comes from generate_xspace.py (made when missing), in millions of events, and is analyzed once. Then a new
server and a new Chromium, which has none of the page's scripts yet, open it several times: seconds from the address
to the verdict and to the first chart, medians, lowest to highest. After that every page is visited and the timeline
moved about in: milliseconds from each request to the first byte of its answer, the longest of a page; and the
server's peak memory. Needs the `dashboard` extra, Playwright and Chromium.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compare_readers import made
from playwright.sync_api import Page, Playwright, sync_playwright

VERDICT, CHART = "#verdict", "#step-stack .barlayer .point"
MOVES = ["in", "in", "in", "in", "right", "left", "out", "all"]
# Requests that ask for what is shown, polls for progress among them; scripts and styles are none.
UPDATE = "_dash-update-component"
# Where rows of the timeline are clicked (share of its width).
CLICK_AT = 0.5
# Nothing asked for this long: the interaction is over (ms).
SETTLED_MS = 700
PATIENCE_MS = 120_000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=float, default=3, help="millions")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "tpuprof-bench")
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    arguments = parser.parse_args()
    trace = made(arguments.work / f"{arguments.events:g}M" / "vm.xplane.pb", round(arguments.events * 1e6))
    with tempfile.TemporaryDirectory() as cache, sync_playwright() as playwright:
        os.environ["TPUPROF_CACHE_DIR"] = cache
        analyze = [sys.executable, "-m", "tpuprof", "analyze", "--json", str(trace)]
        subprocess.run(analyze, check=True, stdout=subprocess.DEVNULL)
        firsts = [first_screen(playwright, arguments.chromium, trace) for _ in range(arguments.repeats)]
        for name, seconds in zip(("verdict", "first chart"), zip(*firsts, strict=True), strict=True):
            print(f"{name}: {statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})")
        interactions(playwright, arguments.chromium, trace)


@contextmanager
def served(trace: Path) -> Iterator[tuple[str, int]]:
    """A server over the trace: its address and process id."""
    command = [sys.executable, "-m", "tpuprof", "dashboard", str(trace), "--no-browser", "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        address = None
        while address is None:
            line = process.stderr.readline() if process.stderr else ""
            if not line:
                sys.exit("the dashboard ended before it said where it is")
            address = re.search(r"http://\S+", line)
        yield address.group(), process.pid
    finally:
        process.terminate()
        process.wait()


@contextmanager
def opened(playwright: Playwright, chromium: str) -> Iterator[Page]:
    """An empty page of a Chromium just started."""
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
    try:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(PATIENCE_MS)
        yield page
    finally:
        browser.close()


def first_screen(playwright: Playwright, chromium: str, trace: Path) -> tuple[float, float]:
    """Seconds from opening the address to the verdict, and to the first chart."""
    with served(trace) as (address, _), opened(playwright, chromium) as page:
        began = time.perf_counter()
        page.goto(address)
        page.wait_for_selector(VERDICT)
        verdict = time.perf_counter() - began
        page.wait_for_selector(CHART)
        return verdict, time.perf_counter() - began


def interactions(playwright: Playwright, chromium: str, trace: Path) -> None:
    """Print the longest answer of each page and of each move of the timeline, and the server's memory."""
    with served(trace) as (address, process), opened(playwright, chromium) as page:
        answers: list[float] = []
        page.on("requestfinished", lambda request: _note(request, answers))
        page.goto(address)
        page.wait_for_selector(CHART)
        for link in page.locator("#menu a").all():
            title = link.inner_text().split("\n")[0]
            link.click()
            _settle(page)
            if title == "Timeline":
                # Only this page reads the trace itself: in the background, while the page shows how far it is.
                page.wait_for_selector("#timeline .main-svg")
                _settle(page)
            print(f"{title}: {_longest(answers)}")
            if title == "Timeline":
                for move in MOVES:
                    page.click(f"#move-{move}")
                    _settle(page)
                    print(f"Timeline, {move}: {_longest(answers)}")
                _click_events(page, answers)
        status = Path(f"/proc/{process}/status").read_text()
        peak = re.search(r"VmHWM:\s+(\d+)", status)
        print(
            f"the server's peak memory: {int(peak.group(1)) / 1024:,.0f} MB"
            if peak
            else "peak memory: unavailable"
        )


def _click_events(page: Page, answers: list[float]) -> None:
    """Click the bar in the middle of each row, for the event's details."""
    chart = page.locator("#timeline .nsewdrag").first.bounding_box()
    rows = page.locator("#timeline .ytick").count()
    if chart is None:
        return
    for row in range(rows):
        page.mouse.click(
            chart["x"] + chart["width"] * CLICK_AT, chart["y"] + chart["height"] * (row + 0.5) / rows
        )
        _settle(page)
        print(f"Timeline, click {row + 1}: {_longest(answers)}")


def _note(request: Any, answers: list[float]) -> None:
    if UPDATE in request.url:
        answers.append(request.timing["responseStart"] - request.timing["requestStart"])


def _settle(page: Page) -> None:
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(SETTLED_MS)


def _longest(answers: list[float]) -> str:
    longest, count = max(answers, default=None), len(answers)
    answers.clear()
    return "no request" if longest is None else f"{longest:.0f} ms, the longest of {count}"


if __name__ == "__main__":
    main()
