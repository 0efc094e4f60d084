"""What lives on the device beside the step: all of it counted once, with the name that the script has for it."""

import weakref

import pytest

pytestmark = pytest.mark.torch_xla

import torch  # noqa: E402
import torch_xla  # noqa: E402

from tpuprof.preflight.script import ScriptRun, trace_script  # noqa: E402

SCRIPT = """
import queue, torch, torch_xla
from torch import nn
import torch_xla.distributed.parallel_loader as pl

class Marked(torch.Tensor): pass
class Cache:
    def __init__(self): self.table = torch.zeros(1000, 300).to(device)

device = torch_xla.device()
model = nn.Linear(1024, 512, bias=False).to(device)
teacher = nn.Linear(1024, 512, bias=False).to(device)
averaged = {key: value.detach().clone() for key, value in model.state_dict().items()}
same = [each.detach() for each in teacher.parameters()]
marked = torch.ones(1024, 256).to(device).as_subclass(Marked)
cache = Cache()
waiting = queue.Queue(); waiting.put(torch.ones(512, 100).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = [(torch.ones(64, 1024), torch.zeros(64, dtype=torch.int64)) for _ in range(40)]
for x, y in pl.MpDeviceLoader(data, device, loader_prefetch_size=8, device_prefetch_size=4):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""


@pytest.mark.slow("another real trace")
def test_each_buffer_beside_the_step_is_counted_once_and_named(tmp_path):
    path, folder = tmp_path / "train.py", tmp_path / "trace"
    path.write_text(SCRIPT)
    folder.mkdir()
    trace = trace_script(ScriptRun(str(path)), folder)
    found = {each["name"]: each["bytes"] for each in trace.steady.resident if each["name"]}
    assert found == {
        "teacher.weight": 1024 * 512 * 4,
        "averaged['weight']": 1024 * 512 * 4,
        "cache.table": 1000 * 300 * 4,
        "marked": 1024 * 256 * 4,
        "waiting.queue[0]": 512 * 100 * 4,
    }
    batches = [each for each in trace.steady.resident if each["shape"] == [64, 1024]]
    # The loader has uploaded at least its next batch; all of them are one entry.
    assert len(batches) == 1
    assert 1 <= batches[0]["count"] <= 4 + 2
    assert batches[0]["bytes"] == batches[0]["count"] * 64 * 1024 * 4


def test_a_look_for_names_keeps_no_tensor_of_a_function_alive():
    from tpuprof.preflight.device_tensors import script_names

    core, seen = torch_xla._XLAC, []
    for _ in range(3):
        batch = torch.ones(4, device="xla")
        assert [each() for each in seen] == [None] * len(seen)
        seen.append(weakref.ref(batch))
        assert "batch" in script_names(core).values()


def test_what_a_script_has_from_locals_stays():
    from tpuprof.preflight.device_tensors import script_names

    width = 4
    settings = locals()
    script_names(torch_xla._XLAC)
    assert settings["width"] == width
