"""Changes that a search makes to a script from outside are in the graph, and what stands for a TPU's own calls is too."""

from collections import Counter

import pytest

pytestmark = pytest.mark.torch_xla
ANOTHER = pytest.mark.slow("another real trace")

from tpuprof.decode.hlo_proto import parse_module_proto  # noqa: E402
from tpuprof.preflight.script import ScriptRun, trace_script  # noqa: E402
from tpuprof.preflight.search.evaluate import products_of  # noqa: E402
from tpuprof.preflight.search.own import batch_option, layers_of  # noqa: E402

LAYERED = """
import argparse, torch, torch_xla
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=8)
args = parser.parse_args()
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)
    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.layers = nn.Linear(16, 32), nn.ModuleList(Layer() for _ in range(3))
    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return x
device = torch_xla.device()
model = Model().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(9):
    optimizer.zero_grad()
    model(torch.ones(args.batch, 16).to(device)).square().mean().backward()
    optimizer.step()
    torch_xla.sync()
"""
# Products of the script: forward 7, gradients of weights 7, gradients of inputs 6.
PRODUCTS = 20


def traced(tmp_path, text, environment=None, devices=1):
    script = tmp_path / "train.py"
    script.write_text(text)
    (tmp_path / "trace").mkdir()
    return trace_script(ScriptRun(str(script), [], environment or {}, devices), tmp_path / "trace")


def opcodes(graph):
    return Counter(
        each.opcode.decode() + (f" {each.custom_call_target.decode()}" if each.custom_call_target else "")
        for computation in parse_module_proto(graph.proto).computations
        for each in computation.instructions
    )


@pytest.mark.parametrize(
    ("tried", "products", "found", "times"),
    [
        pytest.param("", {"f32 x f32": PRODUCTS}, "while", 0, marks=ANOTHER),
        # Three layers compute their first product again.
        ("autocast,remat", {"bf16 x bf16": PRODUCTS + 3}, "opt-barrier", 3),
        pytest.param("remat-offload", {"f32 x f32": PRODUCTS + 3}, "custom-call annotate_device_placement", 6, marks=ANOTHER),
        # One layer's two products forward and four backward, and those of the first: one and one.
        pytest.param("scan", {"f32 x f32": 8}, "while", 2, marks=ANOTHER),
    ],
)  # fmt: skip
def test_a_change_from_outside_is_in_the_graph(tmp_path, tried, products, found, times):
    trace = traced(tmp_path, LAYERED, {"TPUPROF_PREFLIGHT_TRY": tried})
    assert trace.is_steady and trace.trains
    assert products_of(trace.steady) == products
    assert opcodes(trace.steady)[found] == times
    assert batch_option(trace)["value"] == 8
    if not tried.startswith("scan"):
        assert layers_of(trace) == ["layers"]


@ANOTHER
def test_another_mesh_is_in_the_graph(tmp_path):
    text = """
import numpy as np, torch, torch_xla
import torch_xla.distributed.spmd as xs, torch_xla.runtime as xr
xr.use_spmd()
mesh = xs.Mesh(np.arange(4), (4, 1), ("data", "model"))
weight = torch.nn.Parameter(torch.zeros(64, 64).to("xla"))
xs.mark_sharding(weight, mesh, ("data", "model"))
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(9):
    optimizer.zero_grad()
    (torch.ones(8, 64).to("xla") @ weight).sum().backward()
    optimizer.step()
    torch_xla.sync()
"""
    trace = traced(tmp_path, text, {"TPUPROF_PREFLIGHT_MESH": "2,2"}, 4)
    assert {"kind": "mesh", "shape": [4, 1], "axes": ["data", "model"]} in trace.offers
    tiles = {
        tuple(each.sharding.tile_assignment_dimensions)
        for computation in parse_module_proto(trace.steady.proto).computations
        for each in computation.instructions
    }
    assert (2, 2) in tiles and (4, 1) not in tiles


def test_images_are_resized_by_the_calls_of_a_tpu(tmp_path):
    # Weights of 1 MiB are never made: what a CPU computes of them would end the process.
    text = """
import torch, torch_xla, torch.nn.functional as F
device = torch_xla.device()
model = torch.nn.Conv2d(170, 170, 3, padding=1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(9):
    optimizer.zero_grad()
    x = model(F.interpolate(model(torch.randn(2, 170, 4, 4).to(device)), scale_factor=2))
    x = F.interpolate(x, size=(12, 12), mode="bilinear", align_corners=True)
    (x + F.interpolate(x.mean((2, 3), keepdim=True), size=(12, 12))).square().mean().backward()
    optimizer.step()
    torch_xla.sync()
"""
    trace = traced(tmp_path, text)
    assert trace.trains
    calls = {name: count for name, count in opcodes(trace.steady).items() if "Resize" in name}
    # What is one pixel wide is broadcast, not resized; its backward is a call for each side, since it shrinks much.
    assert calls == {
        "custom-call ResizeNearest": 1, "custom-call ResizeNearestGrad": 3,
        "custom-call ResizeBilinear": 1, "custom-call ResizeBilinearGrad": 1,
    }  # fmt: skip
    assert not trace.reads
