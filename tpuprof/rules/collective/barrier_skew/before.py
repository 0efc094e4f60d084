"""The first chip computes norms that no other chip computes, and so comes last to the next step."""

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.runtime as xr

import tpuprof

WIDTH, STEPS = 4096, 40


def train(_index):
    device = torch_xla.device()
    model = torch.nn.Linear(WIDTH, WIDTH).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.ones(WIDTH, WIDTH).to(device)
    norms = []
    for step in range(STEPS):
        tpuprof.step(step)
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        # [shown]
        if xr.global_ordinal() == 0:
            norms += [torch.linalg.norm(each, dim=0) for each in model.parameters()]
        # [/shown]
        xm.optimizer_step(optimizer)
        torch_xla.sync()
    print("result", loss.item())


if __name__ == "__main__":
    torch_xla.launch(train)
