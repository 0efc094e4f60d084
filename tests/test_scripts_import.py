"""Scripts outside the packages import only what the packages have: most of them are run by hand, by no test."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PLACES = {"tpuprof": ROOT / "tpuprof", "tpuprof_dashboard": ROOT / "dashboard" / "tpuprof_dashboard"}
LOCAL = ("scenarios", "benchmarks", "tests", "fuzz")


def source_of(module: str) -> Path | None:
    """The file or folder of a module of ours; None where there is none."""
    first, *rest = module.split(".")
    base = PLACES.get(first, ROOT / first).joinpath(*rest)
    for path in (base / "__init__.py", base.with_suffix(".py"), base.with_suffix(".pyx"), base):
        if path.exists():
            return path
    return None


@cache
def names_in(path: Path) -> frozenset[str] | None:
    """What a module defines at its top level; None where it decides at run time."""
    if path.is_dir() or path.suffix != ".py":
        return None
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.FunctionDef(name="__getattr__"):
                return None
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.Import() | ast.ImportFrom():
                found.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
            case ast.Name(ctx=ast.Store()):
                found.add(node.id)
    return frozenset(found)


def imports(path: Path) -> Iterator[tuple[str, str | None, int]]:
    """Module, name and line of each import of ours in one script."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.module, alias.name, node.lineno) for alias in node.names)


def missing(path: Path) -> list[str]:
    """The imports of a script that name a module or a name that does not exist."""
    wrong = []
    for module, name, line in imports(path):
        if module.split(".")[0] not in (*PLACES, *LOCAL):
            continue
        source = source_of(module)
        if source is None:
            wrong.append(f"line {line}: no module {module}")
            continue
        names = names_in(source)
        if (
            name not in (None, "*")
            and names is not None
            and name not in names
            and not source_of(f"{module}.{name}")
        ):
            wrong.append(f"line {line}: no {name} in {module}")
    return wrong


def scripts() -> list[Path]:
    """Every Python file of the project that belongs to no package; where git is absent, those in the known folders."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    found = [ROOT / line for line in listed.splitlines()] or [
        path for folder in (*LOCAL, "docs", "sample_traces") for path in (ROOT / folder).rglob("*.py")
    ]
    packages = tuple(PLACES.values())
    return [
        path for path in found if path.exists() and not any(package in path.parents for package in packages)
    ]


def test_every_script_imports_only_what_exists() -> None:
    found = scripts()
    assert ROOT / "sample_traces" / "make_predicted.py" in found
    wrong = {str(path.relative_to(ROOT)): lines for path in found if (lines := missing(path))}
    assert not wrong


@pytest.mark.parametrize(
    "line",
    [
        "from tpuprof.preflight.no_such_module import write_run",
        "import tpuprof.no_such_module",
        "from tpuprof.preflight.run_writer import no_such_function",
    ],
)
def test_an_import_of_something_absent_is_found(tmp_path: Path, line: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(line + "\n")
    assert len(missing(script)) == 1
