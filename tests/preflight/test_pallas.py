"""Pallas kernels in scripts that are traced without a TPU: lowered for one, in a version that libtpu reads."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("libtpu")
pytestmark = pytest.mark.torch_xla

from tpuprof.decode.hlo_proto import read_hlo_proto  # noqa: E402
from tpuprof.preflight import adapter  # noqa: E402
from tpuprof.preflight.compiler import CompileOptions, compile_all  # noqa: E402
from tpuprof.preflight.script import ScriptRun, trace_script  # noqa: E402
from tpuprof.preflight.targets import parse_target  # noqa: E402

FLASH = """
import torch, torch_xla
from torch_xla.experimental.custom_kernel import flash_attention
device = torch_xla.device()
weight = torch.nn.Parameter(torch.ones(128, 128, dtype=torch.bfloat16).to(device))
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(4):
    x = torch.ones(1, 2, 256, 128, dtype=torch.bfloat16).to(device)
    optimizer.zero_grad()
    held = x @ weight
    flash_attention(held, held, held, causal=True).float().mean().backward()
    optimizer.step()
    torch_xla.sync()
"""
RAGGED = """
import torch, torch_xla
import torch_xla.experimental.custom_kernel as kernels
device = torch_xla.device()
def numbers(*values): return torch.tensor(values, dtype=torch.int32).to(device)
for step in range(3):
    query = torch.ones(64, 8, 128, dtype=torch.bfloat16).to(device)
    pages = torch.ones(64, 16, 4, 128, dtype=torch.bfloat16).to(device)
    tables = torch.zeros(4, 8, dtype=torch.int32).to(device)
    out = kernels.ragged_paged_attention(query, pages, numbers(16, 16, 16, 16), tables, numbers(0, 16, 32, 48, 64), numbers(4))
    torch_xla.sync()
"""


def trace_of(tmp_path, text, **options):
    (tmp_path / "train.py").write_text(text)
    (tmp_path / "trace").mkdir()
    return trace_script(ScriptRun(str(tmp_path / "train.py"), **options), tmp_path / "trace")


def kernels(proto):
    return [
        each for each in read_hlo_proto(proto).instructions() if each.custom_call_target == "tpu_custom_call"
    ]


@pytest.mark.slow("another real trace and TPU compile")
def test_flash_attention_forward_and_backward_compiles(tmp_path):
    trace = trace_of(tmp_path, FLASH)
    assert trace.is_steady
    # Forward, and in the backward one kernel for the query and one for key and value.
    assert len(kernels(trace.steady.proto)) == 3
    compiled = compile_all([(trace.steady, parse_target("v5e-1"))], CompileOptions(), print)[0]
    assert compiled.status == "compiled", compiled.error
    # Two products forward, four for key and value, three for the query: of 256 x 256 x 128 in two heads.
    assert sorted(compiled.kernel_flops.values()) == [times * 2 * 2 * 256 * 256 * 128 for times in (2, 3, 4)]
    readable = subprocess.run(
        [sys.executable, "-m", "tpuprof.preflight.worker", "--mosaic"],
        env={**os.environ, **adapter.worker_environment()}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    older = json.loads(readable.splitlines()[-1]) is not None
    # Where jax would write what libtpu refuses, the real run fails: that is said.
    assert any("Mosaic version" in each for each in trace.warnings) == older


@pytest.mark.slow("another real trace")
def test_a_kernel_that_asks_for_the_chip_sees_the_slices(tmp_path):
    trace = trace_of(tmp_path, RAGGED, chip_kind="TPU v6 lite")
    assert trace.asked_for_chip
    assert len(kernels(trace.steady.proto)) == 1
