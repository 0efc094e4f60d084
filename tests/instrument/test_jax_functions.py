"""The line where the jitted function is defined that JAX compiles."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tpuprof.instrument.frameworks.jax_functions import definition

# As JAX has it: a function of its own with the traced function in a local variable.
COMPILING = "def compile(jaxpr, call):\n    return call()\n"


def compiling(info, call=definition, module="jax._src.pjit"):
    """What `call` says inside of a compile of a function of which JAX has that information."""
    own = {"__name__": module}
    exec(COMPILING, own)
    return own["compile"](SimpleNamespace(jaxpr=SimpleNamespace(debug_info=info)), call)


def of(text):
    return SimpleNamespace(func_src_info=text)


@pytest.mark.parametrize(
    ("info", "said"),
    [
        (of("train_step at /home/u/train.py:52"), "train_step (/home/u/train.py:52)"),
        (of("<lambda> at /home/u/my files/train.py:5"), "<lambda> (/home/u/my files/train.py:5)"),
        # A library's function is not the program's to change.
        (of("add at /v/lib/python3/site-packages/jax/_src/numpy/ufuncs.py:7"), ""),
        (of("<unknown>"), ""),
        (of(None), ""),
        (None, ""),
    ],
)
def test_a_function_is_named_with_its_line(info, said):
    assert compiling(info) == said


def test_only_the_innermost_compile_of_jax_counts():
    outer, inner = of("outer at /home/u/train.py:1"), of("inner at /home/u/train.py:2")
    assert compiling(outer, lambda: compiling(inner)) == "inner (/home/u/train.py:2)"
    assert compiling(outer, lambda: compiling(of("scan"))) == ""
    assert compiling(outer, lambda: compiling(inner, module="train")) == "outer (/home/u/train.py:1)"
    assert definition() == ""


def test_jax_itself_tells_it(tmp_path):
    """The variable has no public name: a JAX that calls it otherwise tells nothing."""
    pytest.importorskip("jax")
    script = tmp_path / "train.py"
    script.write_text(
        "import jax\n"
        "from tpuprof.instrument.frameworks.jax_functions import definition\n"
        "heard = []\n"
        "jax.monitoring.register_event_duration_secs_listener(\n"
        "    lambda event, seconds, **_: 'backend_compile' in event and heard.append(definition()))\n"
        "def make():\n"
        "    @jax.jit\n"
        "    def step(x):\n"
        "        return x * 2\n"
        "    return step\n"
        "make()(1.0)\n"
        "print([each for each in heard if each])\n"
    )
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, script], check=False, capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.stdout.strip() == f"['step ({script}:7)']", done.stderr
