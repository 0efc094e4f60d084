"""Looking for the line of an op that falls back never ends the program, on whichever thread the op runs."""

import pytest

from tests import scripts

pytestmark = pytest.mark.torch_xla

BACKWARD = """
import sys
import torch
import torch_xla
from tpuprof.capture.fallbacks import FallbackFinder

device = torch_xla.device()
embed = torch.nn.EmbeddingBag(50, 8, mode="mean").to(device)
ids = torch.randint(0, 50, (4, 5)).to(device)
finder = FallbackFinder()
finder.step_ended({"aten::_embedding_bag_backward": 1, "aten::_embedding_bag_forward_only": 1})
for _ in range(2):
    # Autograd calls the op that falls back from a thread of its own, without any Python frame.
    embed(ids).sum().backward()
finder.stop()
torch_xla.sync()
print("sources", finder.sources)
print("gradient", embed.weight.grad.abs().sum().item() > 0)
"""


@pytest.mark.slow("a torch_xla process of its own")
def test_an_op_on_a_thread_of_autograd_ends_nothing(tmp_path):
    script = scripts.write(tmp_path / "train.py", BACKWARD, prelude=False)
    done = scripts.run(script)
    assert "gradient True" in done.stdout
    assert "aten::_embedding_bag" in done.stdout


MODES = """
import threading
import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from tpuprof.capture.fallbacks import MAX_WATCHED, FallbackFinder

class Theirs(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))

finder = FallbackFinder()
counters = {"aten::bincount": 1}
with Theirs():
    finder.step_ended(counters)
    print("beside theirs", len(_get_current_function_mode_stack()))
print("after theirs", len(_get_current_function_mode_stack()))
finder.step_ended(counters)
print("alone", len(_get_current_function_mode_stack()))
theirs = Theirs()
theirs.__enter__()
finder.step_ended({})
print("under theirs", len(_get_current_function_mode_stack()))
theirs.__exit__(None, None, None)
finder.stop()
print("at the end", len(_get_current_function_mode_stack()))
finder.step_ended(counters)
clock = threading.Thread(target=finder.stop)
clock.start()
clock.join()
print("stopped by another thread", len(_get_current_function_mode_stack()), finder.watches)
for _ in range(MAX_WATCHED):
    finder.stop()
    finder.step_ended(counters)
print("stopped before the steps ended", finder.watches)
torch.bincount(torch.ones(3, dtype=torch.int64))
finder.stop()
print("stopped by its own", len(_get_current_function_mode_stack()), finder.watches, finder.sources)
"""


@pytest.mark.slow("a torch_xla process of its own")
def test_modes_of_the_program_end_where_it_ends_them(tmp_path):
    script = scripts.write(tmp_path / "modes.py", MODES, prelude=False)
    assert scripts.run(script).stdout.splitlines() == [
        "beside theirs 1",
        "after theirs 0",
        "alone 1",
        "under theirs 2",
        "at the end 0",
        # A recording by the clock begins on a thread of its own: the mode of the training thread stayed to the end.
        "stopped by another thread 1 True",
        # Such a step was not watched to its end: others are.
        "stopped before the steps ended True",
        "stopped by its own 0 False {}",
    ]


MASKS = """
import torch
import torch_xla
from tpuprof.capture.fallbacks import FallbackFinder

x = torch.randn(6, 4).to(torch_xla.device())
rows = torch.tensor([0, 2]).to(x.device)
finder = FallbackFinder()
finder.step_ended({"aten::nonzero": 1})
taken = x[rows]
x[rows] = 0.0
print("by rows", finder.sources)
kept = x[x > 0]  # the mask
more = x[x < 0]  # another mask
y = x.clone().requires_grad_()
for _ in range(2):
    loss = y[x == 0].sum()  # one more, twice
    torch.autograd.grad(loss, y, retain_graph=True)
    loss.backward()
finder.stop()
print("by a mask", finder.sources["aten::nonzero"].rpartition(":")[2])
print("and", *(line.rpartition(":")[2] for line in finder.also["aten::nonzero"]))
cut = FallbackFinder()
cut.step_ended({"aten::nonzero": 1})
kept = x[x > 0]
cut.stop()
for _ in range(2):
    cut.step_ended({"aten::nonzero": 1})
    more = x[x < 0]  # of a step that was watched to its end
print("after a cut", *(line.rpartition(":")[2] for line in cut.also["aten::nonzero"]), cut.watches)
other = FallbackFinder()
other.step_ended({"aten::nonzero": 1})
x[x[:, 0] > 0] = 1.0  # the mask that is written
other.stop()
print("written", other.sources["aten::nonzero"].rpartition(":")[2])
"""


@pytest.mark.slow("a torch_xla process of its own")
def test_a_mask_as_index_is_where_nonzero_falls_back(tmp_path):
    """torch_xla calls `nonzero` itself, below what a mode sees. A list of rows as index calls none."""
    script = scripts.write(tmp_path / "train.py", MASKS, prelude=False)
    lines = script.read_text().splitlines()
    mask, another, twice, whole, written = (
        next(number for number, line in enumerate(lines, 1) if line.endswith(words))
        for words in (
            "# the mask",
            "# another mask",
            "# one more, twice",
            "# of a step that was watched to its end",
            "# the mask that is written",
        )
    )
    assert scripts.run(script).stdout.splitlines() == [
        "by rows {}",
        f"by a mask {mask}",
        f"and {another} {twice}",
        f"after a cut {whole} False",
        f"written {written}",
    ]


GRADIENTS = """
import torch
import torch_xla
from tpuprof.capture.fallbacks import FallbackFinder

class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * torch.special.i1(ctx.saved_tensors[0])

x = torch.rand(4, device=torch_xla.device(), requires_grad=True)

def look(op, forward, twice=False):
    finder = FallbackFinder()
    finder.step_ended({op: 1})
    loss = forward().sum()
    if twice:
        (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
        gradient.sum().backward()  # twice
    else:
        loss.backward()  # the call
    finder.stop()
    print(finder.sources[op].rpartition(":")[2], sorted(finder.gradients))

look("aten::digamma", lambda: torch.lgamma(x.abs() + 1.0))  # its gradient
look("aten::special_i1", lambda: Own.apply(x))
look("aten::polygamma", lambda: torch.lgamma(x + 1.0), twice=True)
"""


@pytest.mark.slow("a torch_xla process of its own")
def test_an_op_of_the_backward_pass_has_the_line_whose_gradient_it_computes(tmp_path):
    """Or that of the call, in a function with a `backward` in Python, and of a gradient's gradient."""
    script = scripts.write(tmp_path / "train.py", GRADIENTS, prelude=False)
    lines = script.read_text().splitlines()
    gradient, own, twice = (
        next(number for number, line in enumerate(lines, 1) if line.endswith(words))
        for words in ("# its gradient", "# the call", "# twice")
    )
    assert scripts.run(script).stdout.splitlines() == [
        f"{gradient} ['aten::digamma']",
        f"{own} []",
        f"{twice} []",
    ]


INNER = """
import torch
import torch_xla
from tpuprof.capture.fallbacks import FallbackFinder

device = torch_xla.device()
factor = (torch.eye(4) * 2).to(device).requires_grad_()
known = torch.ones(4, 1).to(device)

def look(op, forward):
    finder = FallbackFinder()
    finder.step_ended({op: 1})
    (forward() * 2).sum().backward()
    finder.stop()
    print(finder.sources.get(op, "").rpartition(":")[2], sorted(finder.gradients))

look("aten::_cholesky_solve_helper", lambda: torch.cholesky_solve(known, factor))  # calls it in C++
"""


@pytest.mark.slow("a torch_xla process of its own")
def test_an_op_that_another_op_calls_in_cpp_has_that_ones_line(tmp_path):
    script = scripts.write(tmp_path / "train.py", INNER, prelude=False)
    lines = script.read_text().splitlines()
    line = next(number for number, line in enumerate(lines, 1) if line.endswith("# calls it in C++"))
    assert scripts.run(script).stdout.splitlines() == [f"{line} []"]


VIEWS = """
import torch
import torch.nn.functional as F
import torch_xla
from tpuprof.capture.fallbacks import FallbackFinder

device = torch_xla.device()
image = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0)).to(device)

def gradient():
    theta = torch.tensor([[1.0, 0.1, 0.2], [0.1, 1.0, 0.3]]).repeat(2, 1, 1).to(device).requires_grad_()
    grid = F.affine_grid(theta, image.size(), align_corners=False)
    (F.grid_sample(image, grid, align_corners=False) ** 2).sum().backward()  # sampled
    return theta.grad.cpu()

bare = gradient()
finder = FallbackFinder()
finder.step_ended({"aten::grid_sampler_2d": 1, "aten::grid_sampler_2d_backward": 1})
watched = gradient()
finder.stop()
print("some", bare.abs().max().item() > 0, "same", torch.equal(bare, watched))
print({name: line.rpartition(":")[2] for name, line in sorted(finder.sources.items())}, sorted(finder.gradients))
"""


@pytest.mark.slow("a torch_xla process of its own")
def test_a_step_that_is_watched_computes_the_same(tmp_path):
    """Under a dispatch mode `affine_grid` had no gradient: a captured program trained another model."""
    script = scripts.write(tmp_path / "train.py", VIEWS, prelude=False)
    lines = script.read_text().splitlines()
    line = next(number for number, line in enumerate(lines, 1) if line.endswith("# sampled"))
    assert scripts.run(script).stdout.splitlines() == [
        "some True same True",
        f"{{'aten::grid_sampler_2d': '{line}', 'aten::grid_sampler_2d_backward': '{line}'}} "
        "['aten::grid_sampler_2d_backward']",
    ]


LIBRARY = """
import sys
from pathlib import Path
import torch
import torch_xla
from tpuprof.capture.fallbacks import FallbackFinder

packages = Path(__file__).parent / "site-packages"
packages.mkdir()
(packages / "trains.py").write_text("import torch\\ndef fit(x):\\n    return torch.digamma(x)\\n")
sys.path.insert(0, str(packages))
import trains

device = torch_xla.device()
x = torch.ones(3, device=device) + 1
finder = FallbackFinder()
finder.step_ended({"aten::digamma": 1, "aten::bincount": 1})
trains.fit(x)
torch.bincount(torch.ones(3, dtype=torch.int64, device=device))
finder.stop()
print({op: place.rpartition("/")[2] for op, place in finder.sources.items()})
print({op: place.rpartition("/")[2] for op, place in finder.inside.items()})
"""


@pytest.mark.slow("a torch_xla process of its own")
def test_the_line_of_a_library_that_calls_the_op_is_noted(tmp_path):
    done = scripts.run(scripts.write(tmp_path / "train.py", LIBRARY, prelude=False))
    sources, inside = done.stdout.strip().splitlines()[-2:]
    assert inside == "{'aten::digamma': 'trains.py:3'}", done.stdout + done.stderr
    assert "'aten::digamma': 'train.py:" in sources
