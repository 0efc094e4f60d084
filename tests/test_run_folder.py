"""A run folder's paths, file names and schemas stand in one module, and its page lists them."""

import ast
import re
from pathlib import Path

import pytest

from tpuprof import run_folder

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "run-folder.md").read_text("utf-8")
SCHEMAS = [getattr(run_folder, name) for name in vars(run_folder) if name.endswith("_SCHEMA")]
# Names that no other module may spell, as whole texts; ends of file names, wherever they stand in one.
NAMES = {
    "plugins", "plugins/profile", "run.json", "tpuprof/run.json", "preflight.json", "verdict.json", "ledgers",
    "telemetry.*.jsonl", "tpuprof.report", *SCHEMAS,
}  # fmt: skip
ENDS = re.compile(r"^\S*(\.xplane\.pb(\.gz)?|\.jsonl)$")
MODULES = sorted(
    path
    for folder in ("tpuprof", "dashboard/tpuprof_dashboard")
    for path in (ROOT / folder).rglob("*.py")
    if path != ROOT / "tpuprof" / "run_folder.py" and not path.stem.startswith(("before", "after"))
)


def spelled(source):
    """Names of the run folder that a module spells itself; docstrings and messages are prose."""
    return {
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and (node.value in NAMES or ENDS.match(node.value))
    }


def test_no_other_module_spells_a_name_of_the_run_folder():
    found = {str(path.relative_to(ROOT)): spelled(path.read_text("utf-8")) for path in MODULES}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "code",
    [
        'run / "tpuprof" / "run.json"',
        'f"{label}.xplane.pb"',
        'folder / "plugins"',
        'SCHEMA = "tpuprof.run/1"',
    ],
)
def test_a_spelled_name_is_found(code):
    assert spelled(code)


@pytest.mark.parametrize(
    "name",
    [
        run_folder.PROFILES.as_posix(), run_folder.PROFILE_SUFFIX, run_folder.RUN_INFO.as_posix(), run_folder.RUN_SCHEMA,
        run_folder.GRAPHS.as_posix(), run_folder.GRAPH_SUFFIX, run_folder.PREFLIGHT.as_posix(), f"{run_folder.PROOFS}/",
        "telemetry.<host>", "after.<host>", "metrics.<host>", "pt_xla_debug.<host>",
        f"{run_folder.LEDGERS}/", f"{run_folder.STATUS}/", f"{run_folder.CAPTURES}/", run_folder.VERDICT,
    ],
)  # fmt: skip
def test_the_page_lists_what_a_run_folder_holds(name):
    assert name in PAGE


def test_names_with_labels_are_found_again(tmp_path):
    notes = tmp_path / run_folder.NOTES
    notes.mkdir()
    label = "host[1]"
    for name in (
        run_folder.telemetry_name(label, 0),
        run_folder.aftermath_name(f"{label}.0"),
        run_folder.run_info_name(label, 7),
        run_folder.metrics_name(label),
        run_folder.RUN_INFO.name,
    ):
        (notes / name).write_text("")
    assert [each.name for each in run_folder.telemetry_files(tmp_path, label)] == [
        "telemetry.host[1].0.jsonl"
    ]
    assert run_folder.telemetry_files(tmp_path) == run_folder.telemetry_files(tmp_path, label)
    assert run_folder.telemetry_files(tmp_path, "host1") == []
    assert [each.name for each in run_folder.aftermath_files(tmp_path, label)] == ["after.host[1].0.json"]
    assert [each.name for each in run_folder.run_infos(tmp_path)] == ["run.host[1].7.json", "run.json"]
    assert [each.name for each in run_folder.texts(tmp_path)] == ["metrics.host[1].txt"]
