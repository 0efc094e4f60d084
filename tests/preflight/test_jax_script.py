"""JAX scripts: the jitted calls that a script would run, and the same program by every other way in."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("libtpu")
pytest.importorskip("jax")
pytestmark = pytest.mark.torch_xla

from tpuprof.preflight.compiler import CompileOptions, compile_all  # noqa: E402
from tpuprof.preflight.memory import read_memory  # noqa: E402
from tpuprof.preflight.prediction import predict  # noqa: E402
from tpuprof.preflight.program_files import need_programs, read_programs, to_graph  # noqa: E402
from tpuprof.preflight.script import ScriptRun, trace_script  # noqa: E402
from tpuprof.preflight.targets import parse_target  # noqa: E402

MODEL = """
import functools, jax, jax.export, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P
params = {"a": jnp.ones((1024, 2048), jnp.bfloat16), "b": jnp.ones((2048, 512), jnp.bfloat16)}
def forward(p, x): return jnp.tanh(x @ p["a"]) @ p["b"]
@functools.partial(jax.jit, donate_argnums=0)
def step(params, x):
    loss, grads = jax.value_and_grad(lambda p: (forward(p, x).astype(jnp.float32) ** 2).mean())(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss
evaluate = jax.jit(lambda p, x: forward(p, x).sum())
x = jnp.ones((256, 1024), jnp.bfloat16)
"""
LOOP = """
teacher = jnp.zeros((512, 512))
for epoch in range(3):
    for batch in range(2):
        assert float(evaluate(params, x)) == 1.0
if jax.device_count() > 1:
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    params = jax.device_put(params, NamedSharding(mesh, P("data", None)))
    x = jax.device_put(x, NamedSharding(mesh, P("data", None)))
for batch in range(50):
    params, loss = step(params, x)
    assert not jnp.isnan(loss) and float(loss) == 1.0
open("model.ckpt", "w").write("overwritten")
"""
EXPORT = """
import sys
from jax._src.interpreters import mlir
lowered = step.trace(params, x).lower(lowering_platforms=("tpu",))
open(sys.argv[1] + "/step.mlir", "w").write(lowered.as_text())
open(sys.argv[1] + "/step.bc", "wb").write(mlir.module_to_bytecode(lowered.compiler_ir("stablehlo")))
portable = jax.export.export(step, platforms=("tpu",))(params, x).mlir_module_serialized
open(sys.argv[1] + "/portable.bc", "wb").write(portable)
hlo = lowered.compiler_ir("hlo")
open(sys.argv[1] + "/step.txt", "w").write(hlo.as_hlo_text())
open(sys.argv[1] + "/step.hlo.pb", "wb").write(hlo.as_serialized_hlo_module_proto())
"""
V5E = parse_target("v5e-1")


def trace_of(tmp_path, devices=1, text=MODEL + LOOP):
    path = tmp_path / "train.py"
    path.write_text(text)
    (tmp_path / "trace").mkdir()
    return trace_script(ScriptRun(str(path), devices=devices), tmp_path / "trace")


def test_the_training_step_is_taken_and_no_checkpoint_is_touched(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.ckpt").write_text("precious")
    trace = trace_of(tmp_path)
    assert trace.is_steady
    assert trace.trains
    step = trace.steady
    assert (step.kind, step.updates) == ("jit step", 2)
    assert step.parameter_names == ["params['a']", "params['b']", "x"]
    assert {"jit <lambda>", "jit step"} == {each.kind for each in trace.graphs}
    # The teacher waits beside the step.
    assert any(each["shape"] == [512, 512] and each["bytes"] == 512 * 512 * 4 for each in step.resident)
    assert (tmp_path / "model.ckpt").read_text() == "precious"


@pytest.mark.slow("another real trace")
def test_a_sharded_step_is_one_program_over_the_devices(tmp_path):
    trace = trace_of(tmp_path, devices=4)
    assert trace.steady.kind == "jit step"
    assert trace.steady.spmd
    assert trace.steady.devices(4) == 4


@pytest.mark.slow("another real trace")
def test_functions_made_one_after_another_are_different_programs(tmp_path):
    made = """
import jax, jax.numpy as jnp
x = jnp.ones((8, 8))
for number in range(50):
    # Each is gone before the next is made, so that Python gives some of them the same id.
    jax.jit(lambda x: x + number)(x)
"""
    assert len(trace_of(tmp_path, text=made).graphs) == 50


@pytest.mark.slow("six real TPU compiles")
def test_every_way_in_gives_the_same_memory(tmp_path):
    (tmp_path / "model.py").write_text(MODEL + EXPORT)
    (tmp_path / "files").mkdir()
    env = {**os.environ, "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, str(tmp_path / "model.py"), str(tmp_path / "files")], env=env, check=True)
    graph = trace_of(tmp_path).steady
    graph.resident = []
    graphs = {"script": graph}
    for path in sorted((tmp_path / "files").iterdir()):
        graphs[path.name] = to_graph(read_programs(need_programs(path), CompileOptions())[0])
    assert len(graphs) == 6
    compiled = compile_all([(each, V5E) for each in graphs.values()], CompileOptions(), print)
    found = {name: predict(each) for name, each in zip(graphs, compiled, strict=True)}
    totals = {name: each.memory.total for name, each in found.items()}
    assert max(totals.values()) <= min(totals.values()) * 1.01, totals
    assert {each.flops for each in found.values()} == {found["script"].flops}
    # Both weights once, the input, and nothing for the outputs that take the weights' place.
    weights = (1024 * 2048 + 2048 * 512) * 2
    memory = read_memory(compiled[0].memory, found["script"].module, graph, V5E)
    assert memory.kinds["arguments"] == weights + 256 * 1024 * 2
    assert memory.kinds["aliased"] == weights


NOTED = """
import sys, jax, jax.numpy as jnp
from tpuprof.preflight.jax_script import _results
@jax.tree_util.register_pytree_with_keys_class
class Noted:
    def __init__(self, value, note): self.value, self.note = value, note
    def tree_flatten_with_keys(self): return [(jax.tree_util.GetAttrKey("value"), self.value)], self.note
    @classmethod
    def tree_unflatten(cls, note, leaves): return cls(leaves[0], note)
weights, shape = jnp.full((4, 4), 2.0), jax.ShapeDtypeStruct((4, 4), jnp.float32)
made, states = _results((Noted(weights, "in"),), {}, (Noted(shape, "out"), jax.ShapeDtypeStruct((), jnp.float32)))
assert states == 1 and made[0].value is weights and made[0].note == "out", (states, made)
# A result of the same shape in another place is no state.
_, states = _results(({"weights": weights},), {}, {"logits": shape})
assert states == 0, states
"""


def test_state_whose_tree_has_other_notes_comes_back_as_it_went_in():
    """As of flax's nnx, which notes of its objects where they came from: its training was taken for inference."""
    done = subprocess.run(
        [sys.executable, "-c", NOTED], env={**os.environ, "JAX_PLATFORMS": "cpu"}, check=False
    )
    assert done.returncode == 0
