"""Workers make batches and a thread copies them to the device, while the device computes."""

import time

import torch
import torch_xla
import torch_xla.distributed.parallel_loader as pl

import tpuprof

WIDTH, BATCH, STEPS = 512, 128, 40


class Pictures(torch.utils.data.Dataset):
    def __len__(self):
        return BATCH * STEPS

    def __getitem__(self, number):
        time.sleep(0.001)  # storage answers
        return torch.full((WIDTH,), number % 7 / 7.0)


torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(2)]).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

# [shown]
loader = torch.utils.data.DataLoader(Pictures(), batch_size=BATCH, num_workers=24, prefetch_factor=4)
loader = pl.MpDeviceLoader(loader, device)  # under SPMD: input_sharding=xs.ShardingSpec(mesh, ("fsdp", None))
for step, batch in enumerate(loader):
    tpuprof.step(step)
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    # no torch_xla.sync(): the loader cuts the graph when it gives the next batch
# [/shown]

print("result", loss.item())
