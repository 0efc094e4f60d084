"""The norms are computed rarely, so that the first chip is as early as the others in most steps."""

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
        if xr.global_ordinal() == 0 and step % 100 == 0:
            norms += [torch.linalg.norm(each, dim=0) for each in model.parameters()]
        # [/shown]
        xm.optimizer_step(optimizer)
        torch_xla.sync()
    print("result", loss.item())


if __name__ == "__main__":
    torch_xla.launch(train)
