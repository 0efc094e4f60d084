"""A program whose teacher has gradients is captured, and its rule says what they take; who takes them is left alone."""

import pytest

from tests import scripts

PROGRAM = """
import torch, torch_xla
torch.manual_seed(0)
device = torch_xla.device()
WIDTH = 256
def model():
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH)).to(device)
teacher, student = model(), torch.nn.Linear(WIDTH, WIDTH).to(device)
optimizer = torch.optim.SGD(student.parameters(), lr=0.01)
batch = torch.randn(256, WIDTH).to(device)
for step in range(24):
    optimizer.zero_grad()
    loss = (student(batch) - teacher(batch)).square().mean()
    loss.backward()
    optimizer.step()
    AFTER
    torch_xla.sync()
print(loss.item())
"""
# Changes of data are not counted as changes of the tensor: the programs alone tell.
BY_HAND = """
    for each in teacher.parameters():
        each.data.sub_(0.01 * each.grad.data)
        each.grad.data.zero_()
"""


@pytest.mark.torch_xla
@pytest.mark.parametrize(
    ("after", "status"),
    [
        ("", "failed"),
        pytest.param(
            BY_HAND,
            "passed",
            marks=pytest.mark.slow("a second capture, for the side on which no finding stands"),
        ),
    ],
)
def test_gradients_that_nobody_takes_are_found_in_a_real_program(tmp_path, after, status):
    report = scripts.captured(tmp_path, PROGRAM.replace("    AFTER\n", after))
    (found,) = [each for each in report.findings if each.rule == "unused-gradients"]
    assert (found.status, found.reason == "") == (status, status == "failed")
    if status == "failed":
        assert found.title.startswith("Gradients of 4 parameters of teacher (the largest ")
        assert found.savings is not None
        # On a busy machine the replay may not fit what was measured.
        replayed = "cannot be replayed" not in found.savings.note
        assert found.confidence == ("high" if replayed else "low")
        assert any("dot" in each.text for each in found.evidence)
