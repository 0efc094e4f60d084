"""Whether graph cuts without an optimizer's call may be of training: an evaluation with gradients on is not."""

import pytest

from tpuprof.capture.boundaries import CUTS_WITHOUT_CALL, OPTIMIZER, StepBoundaries
from tpuprof.instrument.optimizer_steps import OptimizerHook
from tpuprof.instrument.state import STATE

torch = pytest.importorskip("torch")


@pytest.fixture
def training():
    """A hook, a model, and a function that runs its backward pass."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
    hook = OptimizerHook(lambda _number, _name: None)
    assert hook.install()
    yield hook, model, lambda: model(torch.ones(2, 4)).sum().backward()
    hook.remove()


def test_only_a_backward_pass_may_be_of_training(training):
    hook, model, backward = training
    assert hook.may_train()  # no optimizer is known
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    backward()
    optimizer.step()
    hook.may_train()
    model(torch.ones(2, 4)).sum()
    assert not hook.may_train()
    backward()
    assert hook.may_train()
    optimizer.zero_grad()
    assert not hook.may_train()
    with torch.no_grad():
        assert not hook.may_train()


@pytest.mark.parametrize("clears", [True, False])
def test_an_evaluation_with_gradients_on_brings_no_cuts_back(training, clears):
    """A Trainer's evaluations of 32 batches made 1452 of 180 steps: "a step takes 21.2 ms without tpuprof"."""
    hook, model, backward = training
    boundaries, optimizer = StepBoundaries(), torch.optim.SGD(model.parameters(), 0.1)
    ends = 0
    for _ in range(3):
        backward()
        optimizer.step()
        ends += boundaries.optimizer_called(0)
        if clears:
            optimizer.zero_grad()
        for _ in range(2 * CUTS_WITHOUT_CALL):
            model(torch.ones(2, 4))
            ends += boundaries.cut(gradients=hook.may_train)
    assert (boundaries.origin, ends) == (OPTIMIZER, 3)


def test_an_optimizer_without_parameters_raises_nothing(training, monkeypatch):
    """Nor does it end the capture."""
    monkeypatch.setattr(STATE, "armed", True)
    hook, model, _ = training
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    optimizer.step()
    optimizer.param_groups.clear()
    assert hook.may_train()
    assert STATE.armed
