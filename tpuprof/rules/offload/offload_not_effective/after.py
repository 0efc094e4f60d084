"""Only the inputs of blocks go to host memory; what is inside is computed again."""

import sys

import torch
import torch_xla
from torch_xla.experimental.stablehlo_custom_call import place_to_device, place_to_host
from torch_xla.utils.checkpoint import checkpoint

WIDTH, DEPTH, STEPS = 4096, 3, 3
BATCH = int(sys.argv[1]) if len(sys.argv) > 1 else 8192


def to_host(tensor):
    """Activations go to host memory; weights stay."""
    return place_to_host(tensor) if tensor.shape[0] == BATCH else tensor


def to_device(tensor):
    return place_to_device(tensor) if tensor.shape[0] == BATCH else tensor


torch.manual_seed(0)
device = torch_xla.device()
blocks = torch.nn.ModuleList(
    [
        torch.nn.Sequential(
            *[torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()) for _ in range(8)]
        )
        for _ in range(DEPTH)
    ]
).to(device, torch.bfloat16)
optimizer = torch.optim.SGD(blocks.parameters(), lr=0.01)
batch = torch.ones(BATCH, WIDTH).to(device, torch.bfloat16)

for _ in range(STEPS):
    optimizer.zero_grad()
    # [shown]
    # The first input must need a gradient, as an embedding's output does: else no checkpoint gets one.
    x = batch.requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(to_host, to_device):
        for block in blocks:
            x = checkpoint(block, x)
    # [/shown]
    loss = x.float().square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()

print("result", loss.item())
