"""Steps of programs with several optimizers, whose rounds are not all of the same calls."""

import pytest

from tests import scripts

pytestmark = pytest.mark.torch_xla

CRITIC_UNTIL_GOOD = """
import torch, torch_xla
torch.manual_seed(0)
device = torch_xla.device()
critic, generator = torch.nn.Linear(16, 1).to(device), torch.nn.Linear(4, 16).to(device)
of_critic = torch.optim.Adam(critic.parameters(), lr=1e-3)
of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3)
for turn in range(60):
    for _ in range((5, 5, 4, 3, 5, 6)[turn % 6] if turn else 5):
        of_critic.zero_grad()
        noise = torch.randn(32, 4).to(device)
        loss = critic(generator(noise).detach()).mean() - critic(torch.randn(32, 16).to(device)).mean()
        loss.backward()
        of_critic.step()
        torch_xla.sync()
    of_generator.zero_grad()
    (-critic(generator(torch.randn(32, 4).to(device))).mean()).backward()
    of_generator.step()
    torch_xla.sync()
print("loss", loss.item())
"""


def test_a_step_ends_with_the_generator_and_holds_no_first_compile(tmp_path):
    report = scripts.captured(tmp_path, CRITIC_UNTIL_GOOD)
    assert report.steps.method == "optimizer steps"
    assert [row for row in report.compiles if row.step is not None] == []
    # Those that were recorded while the round was still being learned may be whole as well.
    assert 8 <= report.steps.count <= 24
