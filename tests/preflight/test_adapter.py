"""The real TPU compiler, through the one module that knows jaxlib's private names.

Runs with the jax that is installed here and, where TPUPROF_TEST_JAX_PYTHON names another Python, with that one's.
"""

import base64
import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("jax")
pytest.importorskip("libtpu")

from tpuprof.errors import Code, TpuprofError
from tpuprof.preflight.compiler import CompileOptions, compile_all
from tpuprof.preflight.graphs import Graph
from tpuprof.preflight.prediction import predict
from tpuprof.preflight.run import parse_targets
from tpuprof.preflight.targets import parse_target

OTHER = os.environ.get("TPUPROF_TEST_JAX_PYTHON", "")
PYTHONS = [
    pytest.param(sys.executable, id="installed"),
    pytest.param(
        OTHER, id="other", marks=pytest.mark.skipif(not OTHER, reason="TPUPROF_TEST_JAX_PYTHON is not set")
    ),
]
LOWER = """
import base64, os
os.environ["JAX_PLATFORMS"] = "cpu"
import jax, jax.numpy as jnp
def shape(*dims): return jax.ShapeDtypeStruct(dims, jnp.bfloat16)
{body}
print(base64.b64encode(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()).decode())
"""


def lowered(body: str, **fields: object) -> Graph:
    """A graph made by jax, as an unoptimized HloModuleProto."""
    done = subprocess.run(
        [sys.executable, "-c", LOWER.format(body=body)], capture_output=True, text=True, check=True
    )
    proto = base64.b64decode(done.stdout.strip().splitlines()[-1])
    graph = Graph(0, "key", "step", 1, proto)
    for name, value in fields.items():
        setattr(graph, name, value)
    return graph


def compile_for(name: str, graph: Graph, python: str = sys.executable):
    return compile_all([(graph, parse_target(name))], CompileOptions(python=python), lambda _: None)[0]


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.slow("`tpuprof preflight` compiles through the same module")
def test_a_program_is_compiled_scheduled_and_priced(python):
    graph = lowered("lowered = jax.jit(lambda x, w: (x @ w, x + 1)).lower(shape(512, 512), shape(512, 512))")
    graph.donors, graph.propagate = [0], [False, False]
    compiled = compile_for("v5e-4", graph, python)
    assert (compiled.status, compiled.error) == ("compiled", "")
    assert compiled.memory["alias"] == 512 * 512 * 2
    assert compiled.memory["argument"] == 2 * 512 * 512 * 2
    found = predict(compiled)
    assert found.module.is_scheduled
    assert found.flops == 2 * 512**3
    assert found.step_ms > 0


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.slow("another real TPU compile")
def test_what_is_too_large_is_refused_by_the_compiler_itself(python):
    graph = lowered("lowered = jax.jit(lambda x, w: x @ w).lower(shape(8, 100000), shape(100000, 100000))")
    graph.propagate, graph.parameter_names = [False, False], ["x", "embed.weight"]
    compiled = compile_for("v5e-4", graph, python)
    assert compiled.status == "out-of-memory"
    memory = predict(compiled).memory
    # 20 GB of weights on a chip that lends a program 15.75 GiB.
    assert memory.shortfall == pytest.approx(20e9 - 15.75 * 2**30, rel=0.1)
    assert memory.buffers[0].name == "embed.weight"


@pytest.mark.slow("two more real TPU compiles")
def test_sharding_freedom_divides_what_no_one_sharded():
    body = """
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import numpy as np
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
mesh = Mesh(np.array(jax.devices()).reshape(4), ("x",))
rows = NamedSharding(mesh, P("x"))
jax.config.update("jax_use_shardy_partitioner", False)
lowered = jax.jit(lambda w, m: w * 2 + m, in_shardings=(rows, None)).lower(shape(4096, 1024), shape(4096, 1024))
"""
    body = 'os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"\n' + body
    whole = lowered(body, spmd=True, propagate=[False, False])
    free = lowered(body, spmd=True, propagate=[False, True])
    size = 4096 * 1024 * 2
    assert compile_for("v5e-4", whole).memory["argument"] == size // 4 + size
    assert compile_for("v5e-4", free).memory["argument"] == size // 2


@pytest.mark.parametrize("name", ["v4-8", "v5e-4", "v5p-8", "v6e-4"])
@pytest.mark.slow("a real TPU compile for each generation")
def test_a_large_matmul_is_predicted_within_half_again_of_flops_over_peak(name):
    graph = lowered("lowered = jax.jit(lambda x, w: x @ w).lower(shape(8192, 8192), shape(8192, 8192))")
    graph.propagate = [False, False]
    found = predict(compile_for(name, graph))
    at_peak_ms = 2 * 8192**3 / parse_target(name).chip.peak_flops_per_s * 1e3
    assert 1.0 <= found.step_ms / at_peak_ms <= 1.5


def test_a_slice_the_installed_compiler_does_not_know_lists_those_it_does():
    versions = json.loads(
        subprocess.run(
            [sys.executable, "-c", "import libtpu, json; print(json.dumps(libtpu.__version__))"],
            capture_output=True, text=True, check=True,
        ).stdout
    )  # fmt: skip
    if tuple(int(part) for part in versions.split(".")[:3]) > (0, 0, 30):
        pytest.skip("this libtpu knows every generation of the table")
    with pytest.raises(TpuprofError) as caught:
        parse_targets(["tpu7x-8"], CompileOptions())
    assert caught.value.code is Code.UNKNOWN_TARGET
    assert "v5e-4" in str(caught.value)
    assert "tpu7x-8," not in str(caught.value)
