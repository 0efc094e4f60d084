"""What docs/architecture.md says of changes: each is made where that page says, and seen everywhere by itself.

A part of the breakdown has tests/test_parts.py.
"""

import importlib.util
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tpuprof.rules.run as category
from tests.builders import TraceBuilder, op
from tpuprof import chips
from tpuprof.analysis.analyze import analyze_run
from tpuprof.cli.main import app
from tpuprof.decode import load, sniff, xplane
from tpuprof.decode.find import find
from tpuprof.errors import TpuprofError
from tpuprof.model.host import vocabulary
from tpuprof.preflight.targets import parse_target
from tpuprof.rules.registry import all_rules, find_rule

ROOT = Path(__file__).resolve().parents[1]
TABLE = (ROOT / "docs" / "architecture.md").read_text("utf-8").split("## To change something")[1]


def training(name="train", inside=None, chip=None):
    """Six marked steps in which the host does `inside` first, while the TPU waits."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    if chip:
        trace.tpu(0).stat(device_type_string=chip)
    for step in range(6):
        python.event(name, 1000 * step, 990, _r=1, step_num=step)
        if inside:
            python.event(inside, 1000 * step + 10, 600)
        trace.tpu(0).line("XLA Modules").event("f(7)", 1000 * step + 620, 350)
        trace.tpu(0).line("XLA Ops").event(start=1000 * step + 620, duration=350, **op("fusion.1"))
    return trace


@pytest.mark.parametrize(
    ("change", "file"),
    [
        ("a part of the breakdown", "tpuprof/parts.py"),
        ("a chip", "tpuprof/chips.py"),
        ("a rule", "tpuprof/rules/CATEGORY/RULE/"),
        ("a framework's host events", "tpuprof/vocabulary/"),
        ("a trace format", "tpuprof/decode/sniff.py"),
        ("a page of the dashboard", "pages/registry.py"),
    ],
)
def test_the_page_names_the_file_that_is_changed_here(change, file):
    row = next(line for line in TABLE.splitlines() if line.startswith(f"| {change} |"))
    assert file in row


# --- a rule: one folder

RULE = '''"""The kettle boils.

## What it detects

Kettles.

## Why it costs time

Tea takes a while.
"""

from tpuprof.rules.base import Outcome, failed, rule
from tpuprof.signals import Signals


@rule(about="kettles", good="No kettle boils", bad="A kettle boils", reads=("steps",))
def check(signals: Signals) -> Outcome:
    """Fail always."""
    return failed(0.5, [], title=f"A kettle boils in {len(signals.steps)} steps", reason="tea has no price")
'''


@pytest.fixture
def kettle(tmp_path, monkeypatch):
    folder = tmp_path / "rules" / "boiling_kettle"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "rule.py").write_text(RULE)
    monkeypatch.setattr(category, "__path__", [*category.__path__, str(folder.parent)])
    all_rules.cache_clear()
    yield
    all_rules.cache_clear()
    for name in [each for each in sys.modules if "boiling_kettle" in each]:
        del sys.modules[name]


def test_a_rule_is_a_folder(kettle, tmp_path):
    assert find_rule("boiling-kettle").category == "run"
    report = analyze_run(training().write(tmp_path / "h.xplane.pb"))
    finding = next(each for each in report.findings if each.rule == "boiling-kettle")
    assert (finding.status, finding.title) == ("failed", "A kettle boils in 6 steps")
    assert "boiling-kettle" in CliRunner().invoke(app, ["rules"]).stdout
    assert "Tea takes a while." in CliRunner().invoke(app, ["rules", "boiling-kettle"]).stdout
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    pages = generate.pages()
    assert "Kettles." in pages["rules/boiling-kettle.md"]
    assert "rules/boiling-kettle.md" in pages["rules.md"]


def test_without_the_folder_there_is_no_such_rule():
    with pytest.raises(TpuprofError, match="boiling-kettle"):
        find_rule("boiling-kettle")


# --- a framework: one file of names

BREWING = """
framework = "brew"
tried = 0
detect = ["BrewBegin*"]
driver = ["Brew*"]
step_boundary = []
graph_cut = []
residual = "unknown"

[activity]
input_wait = ["BrewBegin*"]

[compile]
events = []
hash_stat = ""
"""


def test_a_framework_is_a_file_of_names(tmp_path, monkeypatch):
    path = training(inside="BrewBegin#1").write(tmp_path / "h.xplane.pb")
    before = analyze_run(path)
    assert (before.environment["framework"], before.breakdown["input_wait"].share) == ("unknown", 0)
    folder = tmp_path / "vocabulary"
    shutil.copytree(vocabulary.FOLDER, folder)
    (folder / "brew.toml").write_text(BREWING)
    monkeypatch.setattr(vocabulary, "FOLDER", folder)
    vocabulary.vocabularies.cache_clear()
    try:
        after = analyze_run(path)
    finally:
        vocabulary.vocabularies.cache_clear()
    assert after.environment["framework"] == "brew"
    assert after.breakdown["input_wait"].share == pytest.approx(0.6, abs=0.02)
    assert after.verdict.bound == "input"


def test_vocabularies_are_tried_in_one_order():
    assert [each.framework for each in vocabulary.vocabularies()] == [
        "torch_xla",
        "pytorch",
        "torch_tpu",
        "jax",
    ]


# --- a format: a reader, and its line in the table of formats

MAGIC = b"BREW1\n"


def read_brew(path, *, compressed):
    """A profile behind a line of its own."""
    data = path.read_bytes()
    data = sniff.gunzip(data) if compressed else data
    return xplane.parse(data.removeprefix(MAGIC), str(path))


@pytest.mark.parametrize("packed", [False, True])
def test_a_format_is_a_reader_and_a_line(tmp_path, monkeypatch, packed):
    import gzip

    space = training().write(tmp_path / "source" / "h.xplane.pb").read_bytes()
    session = tmp_path / "run" / "plugins" / "profile" / "one"
    session.mkdir(parents=True)
    path = session / "h.brew"
    path.write_bytes(gzip.compress(MAGIC + space) if packed else MAGIC + space)
    with pytest.raises(TpuprofError, match="neither"):
        load.load(path)
    brew = sniff.Format(
        "brew", "brew-gz", lambda head, _size: head.startswith(MAGIC), f"{__name__}:read_brew", (0, 1)
    )
    monkeypatch.setattr(sniff, "FORMATS", (*sniff.FORMATS, brew))
    assert sniff.sniff(path) == ("brew-gz" if packed else "brew")
    assert list(find(tmp_path / "run").files.values()) == [path]
    assert analyze_run(tmp_path / "run").steps.count == 6


# --- a chip: one entry


def test_a_chip_is_an_entry(tmp_path, monkeypatch):
    path = training(chip="TPU v99").write(tmp_path / "h.xplane.pb")
    new = replace(
        chips.CHIPS["v6e"], name="v99", names=("TPU v99",), slices=("v99",), hbm_usable_bytes=7 << 30
    )
    with pytest.raises(TpuprofError, match="v99"):
        parse_target("v99-4")
    assert chips.chip_of("TPU v99") is None
    monkeypatch.setitem(chips.CHIPS, "v99", new)
    assert chips.chip_of("tpu V99") is new
    assert parse_target("v99-4").chip is new
    report = analyze_run(path)
    assert report.environment["device_type"] == "TPU v99"
    assert report.memory.capacity_bytes == 7 << 30


# --- a page: a file, and its line in the registry


def test_a_page_is_a_file_and_a_line(tmp_path, monkeypatch):
    pytest.importorskip("dash")
    from tpuprof_dashboard import app as dashboard
    from tpuprof_dashboard import pages as package
    from tpuprof_dashboard import shell
    from tpuprof_dashboard.pages import registry
    from tpuprof_dashboard.store import Store

    (tmp_path / "kettles.py").write_text(
        "from tpuprof_dashboard.pages.page import Page\n"
        "SEEN = []\n"
        'PAGE = Page("kettles", "Kettles", "How many?", register=lambda app, store: SEEN.append(app))\n'
    )
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    source = Path(registry.__file__).read_text("utf-8")
    source = re.sub(r"    job,\n", "    job,\n    kettles,\n", source, count=1)
    source = source.replace("    job.PAGE,\n", "    job.PAGE,\n    kettles.PAGE,\n")
    made = {}
    exec(compile(source, "registry.py", "exec"), made)
    monkeypatch.setattr(dashboard, "PAGES", made["PAGES"])
    monkeypatch.setattr(dashboard, "BY_KEY", made["BY_KEY"])
    store = Store([training().write(tmp_path / "h.xplane.pb")])
    try:
        dashboard.create_app(store)
    finally:
        store.close()
    assert len(sys.modules["tpuprof_dashboard.pages.kettles"].SEEN) == 1
    assert "kettles" in made["BY_KEY"]
    links = shell.menu(made["PAGES"], {"page": "kettles"}, {})
    assert [each.label for each in links if getattr(each, "aria-current", "") == "page"] == ["Kettles"]
    assert "Kettles" not in [each.label for each in shell.menu(registry.PAGES, {}, {})]
