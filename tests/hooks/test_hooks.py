"""Hooks of training libraries, each with a tiny random model trained for real."""

import pytest

from tpuprof.instrument.state import STATE


@pytest.fixture
def marked():
    numbers = []

    def listener(number, _samples):
        numbers.append(number)

    STATE.listeners.append(listener)
    yield numbers
    STATE.listeners.remove(listener)


def data(torch, count=24):
    torch.manual_seed(0)
    return torch.utils.data.TensorDataset(torch.randn(count, 8), torch.randint(0, 2, (count,)))


def test_accelerate_marks_each_update(marked):
    accelerate, torch = pytest.importorskip("accelerate"), pytest.importorskip("torch")
    from tpuprof.hooks.accelerate import mark_steps

    accelerator = mark_steps(mark_steps(accelerate.Accelerator(gradient_accumulation_steps=2, cpu=True)))
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(
        model, optimizer, torch.utils.data.DataLoader(data(torch), batch_size=4)
    )
    for x, y in loader:
        with accelerator.accumulate(model):
            accelerator.backward(torch.nn.functional.cross_entropy(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
    assert marked == [0, 1, 2]


def test_a_backward_pass_that_fails_reaches_the_program(marked):
    from tpuprof.hooks.accelerate import mark_steps

    class Accelerator:
        sync_gradients = True

        def backward(self, loss):
            raise ValueError(loss)

    with pytest.raises(ValueError, match="no gradient"):
        mark_steps(Accelerator()).backward("no gradient")
