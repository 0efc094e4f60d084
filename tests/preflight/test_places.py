"""Which Python runs a script: told by what the script imports and by the environments that there are."""

import stat
import sys

import pytest

from tpuprof.errors import Code, TpuprofError
from tpuprof.preflight import places
from tpuprof.preflight.places import TORCH_TPU, TORCH_XLA, Place, place_for

ON_TPU = "import torch, torch_tpu\nmodel = torch.nn.Linear(2, 2).to('tpu')\n"
BY_ITSELF = "import torch\nmodel = torch.nn.Linear(2, 2).to('tpu:0')\n"


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """No environment but those a test makes, and a tpuprof that is installed without torch_tpu."""
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(places, "find_spec", lambda name: None)


def script(folder, text=ON_TPU):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "train.py"
    path.write_text(text)
    return str(path)


def environment(folder, has="true", plugin=True):
    packages = folder / "lib" / "packages"
    (packages / "xla_plugins" / "xla_cpu_pjrt").mkdir(parents=True)
    if plugin:
        (packages / "xla_plugins" / "xla_cpu_pjrt" / "xla_cpu_pjrt.so").touch()
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.write_text(
        f"#!/bin/sh\necho 'hello from a start file'\necho '[{has}, false, [\"\", \"{packages}\"]]'\n"
    )
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return python


def test_another_frameworks_script_runs_in_preflights_own_python(tmp_path):
    environment(tmp_path / ".venv")
    for text in (
        "import torch_xla",
        "import jax",
        "import torch, torch_xla, torch_tpu",
        "import torch",
        "(",
        "",
    ):
        assert place_for(script(tmp_path, text), False, None) == Place()


@pytest.mark.parametrize("text", [ON_TPU, BY_ITSELF])
def test_the_environment_beside_the_script_is_found(tmp_path, text):
    python = environment(tmp_path / "project" / ".venv")
    found = place_for(script(tmp_path / "project" / "src", text), False, None)
    assert (found.python, found.framework) == (str(python), TORCH_TPU)
    assert found.found == str(tmp_path / "project" / ".venv")
    assert found.variables()["TPU_LIBRARY_PATH"] == found.plugin
    assert found.plugin.endswith("xla_cpu_pjrt.so")


def test_the_active_environment_comes_first_where_it_has_torch_tpu(tmp_path, monkeypatch):
    environment(tmp_path / ".venv")
    active = environment(tmp_path / "active")
    without = environment(tmp_path / "without", has="false")
    monkeypatch.setenv("VIRTUAL_ENV", str(active.parents[1]))
    assert place_for(script(tmp_path), False, None).python == str(active)
    monkeypatch.setenv("VIRTUAL_ENV", str(without.parents[1]))
    assert place_for(script(tmp_path), False, None).python == str(tmp_path / ".venv" / "bin" / "python")


def test_a_module_beside_the_script_may_be_the_one_that_imports_it(tmp_path):
    environment(tmp_path / ".venv")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "__init__.py").write_text("from models import decoder")
    (tmp_path / "models" / "decoder.py").write_text(ON_TPU)
    assert place_for(script(tmp_path, "import models"), False, None).framework == TORCH_TPU


def test_without_an_environment_the_error_says_what_was_tried_and_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("VIRTUAL_ENV", str(environment(tmp_path / "without", has="false").parents[1]))
    with pytest.raises(TpuprofError) as caught:
        place_for(script(tmp_path / "p"), False, None)
    assert caught.value.code is Code.PREFLIGHT_PYTHON
    assert "without/bin/python" in caught.value.message
    assert sys.executable in caught.value.message
    assert "--python" in caught.value.hint


def test_a_python_that_is_named_decides_alone(tmp_path, monkeypatch):
    python = environment(tmp_path / "named")
    found = place_for(script(tmp_path, "import torch"), False, str(python))
    assert (found.python, found.framework, found.found) == (str(python), TORCH_TPU, "--python")
    monkeypatch.chdir(tmp_path)
    assert place_for(script(tmp_path), False, "named/bin/python").python == str(python)
    xla = tmp_path / "xla"
    xla.write_text("#!/bin/sh\necho '[false, true, []]'\n")
    xla.chmod(0o755)
    assert place_for(script(tmp_path), False, str(xla)).framework == TORCH_XLA
    with pytest.raises(TpuprofError) as caught:
        place_for(script(tmp_path), False, str(tmp_path / "missing"))
    assert caught.value.code is Code.PREFLIGHT_PYTHON


def test_without_a_cpu_plugin_the_error_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(TpuprofError) as caught:
        place_for(script(tmp_path), False, str(environment(tmp_path / "named", plugin=False)))
    assert caught.value.code is Code.MISSING_EXTRA
    assert "xla-cpu-pjrt" in caught.value.hint
