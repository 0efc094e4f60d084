"""Settings of a variant, and sweeps over one."""

import pytest

from tpuprof.errors import TpuprofError
from tpuprof.preflight.run import sweep_values, with_setting
from tpuprof.preflight.script import ScriptRun, project_of


def test_sweep_values_rise():
    assert sweep_values("batch=32,8,16") == ("batch", ["8", "16", "32"])


@pytest.mark.parametrize("text", ["batch", "batch=", "=8", "batch=8,many"])
def test_other_sweeps_are_refused(text):
    with pytest.raises(TpuprofError, match="usage"):
        sweep_values(text)


@pytest.mark.parametrize(
    ("arguments", "name", "expected"),
    [
        (["--batch", "4", "--x"], "batch", ["--batch", "8", "--x"]),
        (["--batch=4"], "batch", ["--batch=8"]),
        (["--x"], "batch", ["--x", "--batch", "8"]),
        (["-b{batch}", "run"], "batch", ["-b8", "run"]),
    ],
)
def test_a_setting_is_an_argument(arguments, name, expected):
    base = ScriptRun("train.py", arguments)
    assert with_setting(base, name, "8").arguments == expected
    assert base.arguments == arguments


def test_a_name_in_capitals_is_an_environment_variable():
    changed = with_setting(ScriptRun("train.py", ["--x"], {"A": "1"}), "BATCH", "8")
    assert changed.environment == {"A": "1", "BATCH": "8"}
    assert changed.arguments == ["--x"]


def test_a_modules_project_is_the_same_from_every_working_directory(tmp_path, monkeypatch):
    home = tmp_path / "project"
    (home / "training").mkdir(parents=True)
    (home / "single.py").write_text("")
    elsewhere = {"PYTHONPATH": f"{tmp_path}/nothing:{home}"}
    for folder, environment in ((home, {}), (tmp_path, elsewhere), (home / "training", elsewhere)):
        monkeypatch.chdir(folder)
        for name in ("training.main", "training", "single"):
            assert project_of(ScriptRun(name, [], environment, module=True)) == str(home)
    monkeypatch.chdir(tmp_path)
    assert project_of(ScriptRun("json.tool", module=True)) == str(tmp_path)
