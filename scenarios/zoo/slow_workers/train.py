import time

import torch
import torch.nn as nn
import torch_xla
from torch.utils.data import DataLoader


def collate(rows):
    batch = []
    for row in rows:
        words = " ".join(str(number + row) for number in range(25000)).split()
        batch.append(torch.tensor([float(word) / 25000 for word in words[:64]]))
    return torch.stack(batch)


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch_xla.device()
    model = nn.Linear(64, 64).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    marks = []
    for x in DataLoader(range(16 * 40), batch_size=16, collate_fn=collate, num_workers=2):
        x = x.to(device)
        optimizer.zero_grad()
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        marks.append(time.perf_counter())
    print("loss", loss.item())
    print(f"{(time.perf_counter() - marks[4]) / (len(marks) - 5) * 1e3:.2f} ms per step")
    print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
