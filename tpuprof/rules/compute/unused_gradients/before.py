"""A student learns from a teacher, whose forward pass records gradients: those of its weights are summed for ever."""

import torch
import torch_xla

import tpuprof

WIDTH, DEPTH, BATCH, STEPS = 512, 4, 256, 30

torch.manual_seed(0)
device = torch_xla.device()
teacher = torch.nn.Sequential(
    *(torch.nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH)), torch.nn.Linear(WIDTH, 10)
)
teacher = teacher.to(device)
student = torch.nn.Linear(WIDTH, 10).to(device)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
batch = torch.randn(BATCH, WIDTH).to(device)

for step in range(STEPS):
    tpuprof.step(step)
    optimizer.zero_grad()
    # [shown]
    target = teacher(batch).softmax(-1)
    # [/shown]
    loss = torch.nn.functional.cross_entropy(student(batch), target)
    loss.backward()
    optimizer.step()
    torch_xla.sync()

print("result", loss.item())
