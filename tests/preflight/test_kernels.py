"""Pallas kernels and loops on the device, in scripts under preflight."""

import pytest

pytestmark = pytest.mark.torch_xla

from tests.preflight.test_intercept import trace_of  # noqa: E402
from tpuprof.decode.hlo_proto import read_hlo_proto  # noqa: E402

ATTENTION = """
from torch_xla.experimental.custom_kernel import flash_attention
device = torch_xla.device()
model = nn.Linear(128, 128, bias=False).to(torch.bfloat16).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    query = model(torch.ones(1, 2, 512, 128, dtype=torch.bfloat16).to(device))
    flash_attention(query, query, query, sm_scale=0.1).float().mean().backward()
    optimizer.step()
    torch_xla.sync()
"""


@pytest.mark.slow("another real trace")
def test_a_kernel_is_traced_for_a_tpu_without_one(tmp_path):
    trace = trace_of(tmp_path, ATTENTION)
    module = read_hlo_proto(trace.steady.proto)
    kernels = [each for each in module.instructions() if each.opcode == "custom-call"]
    # Forward, and two backward: for query, and for key and value.
    assert [each.custom_call_target for each in kernels].count("tpu_custom_call") == 3


LOOP = """
import torch_xla.experimental.fori_loop
from torch._higher_order_ops.while_loop import while_loop
device = torch_xla.device()
model = nn.Linear(128, 128, bias=False).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def unfinished(left, x):
    return left[0] > 0

def add(left, x):
    return left - 1, x + x

left, start = torch.tensor([5], dtype=torch.int32, device=device), torch.ones(64, 64).to(device)
torch_xla.sync()
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(8, 128).to(device)).mean().backward()
    optimizer.step()
    end = while_loop(unfinished, add, (left, start))[1]
    torch_xla.sync()
"""


@pytest.mark.slow("another real trace")
def test_a_while_loop_is_traced(tmp_path):
    trace = trace_of(tmp_path, LOOP)
    opcodes = [each.opcode for each in read_hlo_proto(trace.steady.proto).instructions()]
    assert "while" in opcodes
