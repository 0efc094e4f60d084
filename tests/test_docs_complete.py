"""Pages that list everything of a kind do so: error codes, packages, public names; and what they name exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tpuprof
from tpuprof.errors import Code

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


def test_every_error_code_has_one_row():
    rows = re.findall(r"^\| `([a-z-]+)` \|", (DOCS / "errors.md").read_text("utf-8"), re.M)
    assert sorted(rows) == sorted(code.value for code in Code)


def test_the_first_error_is_what_is_printed(tmp_path):
    shown = (DOCS / "errors.md").read_text("utf-8").split("```console\n")[1].split("```")[0].splitlines()
    done = subprocess.run(
        [sys.executable, "-m", "tpuprof", *shown[0].split()[2:]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.split() == shown[1].split()


def test_every_package_is_in_the_picture():
    text = (DOCS / "architecture.md").read_text("utf-8")
    packages = {path.parent.name for path in (ROOT / "tpuprof").glob("*/__init__.py")}
    assert {name for name in packages - {"demo", "vocabulary"} if f"`{name}/`" not in text} == set()


@pytest.mark.parametrize("page", ["architecture.md", "quickstart.md", "glossary.md", "errors.md"])
def test_files_that_a_page_names_exist(page):
    for name in re.findall(r"`((?:tpuprof|dashboard|docs)/[\w./]+)`", (DOCS / page).read_text("utf-8")):
        assert (ROOT / name).exists() or "CATEGORY" in name, name


def test_every_public_name_is_described():
    text = (DOCS / "python-api.md").read_text("utf-8")
    assert [name for name in tpuprof.__all__ if f"tpuprof.{name}" not in text] == []


def test_the_old_spelling_still_works():
    with pytest.warns(DeprecationWarning, match="analyze_run"):
        assert tpuprof.analyse_run is tpuprof.analyze_run


def test_commands_of_the_quickstart_exist():
    from typer.main import get_command

    from tpuprof.cli.main import app

    group = get_command(app)
    text = re.sub(r"\\\n\s*", "", (DOCS / "quickstart.md").read_text("utf-8"))
    commands = re.findall(
        r"tpuprof (?!\")([a-z]+)((?: [^\n'|#]+)?)", "\n".join(re.findall(r"^\$ .*|--command .*", text, re.M))
    )
    assert len(commands) >= 8
    for name, rest in commands:
        options = {option for each in group.commands[name].params for option in each.opts}
        used = re.findall(r"(?<!\S)(--?[a-z][\w-]*)", rest.split(" -- ")[0])
        assert set(used) <= options, (name, set(used) - options)
