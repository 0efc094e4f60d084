import time

import torch
import torch.nn as nn
import torch_xla


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    blocks = [nn.Sequential(nn.Linear(32, 32), nn.LayerNorm(32), nn.ReLU()) for _ in range(8)]
    model = nn.Sequential(*blocks).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(8, 32).to(device)
    marks = []
    for step in range(30):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        marks.append(time.perf_counter())
    print("loss", loss.item())
    print(f"{(time.perf_counter() - marks[4]) / 25 * 1e3:.2f} ms per step")
    print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))


if __name__ == "__main__":
    main()
