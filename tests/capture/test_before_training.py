"""What a program does before it trains is no capture of training."""

import sys

import pytest

from tests import scripts
from tpuprof.capture import contention
from tpuprof.capture.before_training import LOOK_EVERY_SECONDS, BeforeTraining
from tpuprof.instrument.optimizer_steps import OptimizerHook

PLAYS = """
import time, torch, torch_xla
torch.manual_seed(0)
device = torch_xla.device()
policy = torch.nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.01)
seen = []
for turn in range(6):
    for _ in range(60):
        with torch.no_grad():
            action = policy(torch.ones(4, 8).to(device))
        torch_xla.sync()
        seen.append(action.cpu())
        time.sleep(0.01)
    for _ in range(10):
        optimizer.zero_grad()
        loss = policy(torch.ones(64, 8).to(device)).square().mean()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
print("loss", loss.item())
"""


@pytest.fixture
def process(monkeypatch, tmp_path):
    """A process: `made` is the class of its optimizers, in `tasks` are its threads, and `clock[0]` is the time."""

    class Optimizer:
        def step(self):
            """Do nothing."""

    class Sgd(Optimizer):
        def step(self):
            """Do nothing."""

    class Module:
        pass

    module = Module()
    module.Optimizer = Optimizer
    monkeypatch.setitem(sys.modules, "torch.optim.optimizer", module)
    hook, clock = OptimizerHook(lambda _number, _name: None), [0.0]
    asked = BeforeTraining(hook, lambda: clock[0])
    monkeypatch.setattr(contention, "_TASKS", tmp_path)

    def thread(name):
        folder = tmp_path / str(len([*tmp_path.iterdir()]))
        folder.mkdir()
        (folder / "comm").write_text(name + "\n")

    thread("python")
    return asked, hook, clock, Sgd, thread


def test_an_optimizer_that_was_made_and_has_not_stepped_is_before_training(process):
    asked, hook, _, made, _ = process
    assert not asked()
    made.step.hooked = True
    assert asked()
    hook.stepped = True
    assert not asked()


def test_a_backward_pass_is_training_and_threads_are_looked_at_now_and_then(process):
    asked, _, clock, made, thread = process
    made.step.hooked = True
    assert asked()
    thread("pt_autograd_0")
    clock[0] = LOOK_EVERY_SECONDS / 2
    assert asked()
    clock[0] = LOOK_EVERY_SECONDS
    assert not asked()


def test_where_threads_have_no_names_nothing_is_waited_for(process, monkeypatch, tmp_path):
    asked, _, _, made, _ = process
    made.step.hooked = True
    monkeypatch.setattr(contention, "_TASKS", tmp_path / "missing")
    assert not asked()


@pytest.mark.torch_xla
def test_play_before_the_first_update_is_not_what_is_captured(tmp_path):
    report = scripts.captured(tmp_path, PLAYS)
    assert report.steps.method == "optimizer steps"
