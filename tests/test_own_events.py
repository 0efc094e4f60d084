"""The names of tpuprof's own events stand in one table, and nowhere else."""

import re
from pathlib import Path

import pytest

from tpuprof import own_events

PACKAGE = Path(own_events.__file__).parent
NAMES = {
    text
    for name, text in vars(own_events).items()
    if name.isupper() and isinstance(text, str) and text != own_events.PREFIX
}


def test_no_other_module_spells_a_name():
    spelled = re.compile("|".join(f"[\"']{re.escape(name)}[\"']" for name in NAMES))
    others = [path for path in PACKAGE.rglob("*.py") if path.name != "own_events.py"]
    assert len(others) > 100
    assert [str(path) for path in others if spelled.search(path.read_text("utf-8"))] == []


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("vocabulary/*.toml")), ids=lambda path: path.stem)
def test_vocabularies_name_no_event_that_is_never_written(path):
    named = set(re.findall(r'"(tpuprof\.[\w.]+)"', path.read_text("utf-8")))
    assert named - NAMES == set()


def test_native_code_writes_the_name_that_is_read():
    assert f'f"{own_events.COLLECTION}#' in (PACKAGE / "instrument" / "_gc_events.pyx").read_text("utf-8")
