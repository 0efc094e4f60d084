import itertools
import time

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.utils.utils as xu
import torchvision
from torch_xla import runtime as xr


class TrainResNetBase:
    def __init__(self, batch_size=16, image=32, num_steps=16):
        torch.manual_seed(42)
        self.num_steps = num_steps
        self.batch_size = batch_size
        loader = xu.SampleGenerator(
            data=(torch.ones(batch_size, 3, image, image), torch.zeros(batch_size, dtype=torch.int64)),
            sample_count=num_steps,
        )
        self.device = torch_xla.device()
        self.train_device_loader = pl.MpDeviceLoader(loader, self.device)
        self.model = torchvision.models.resnet18(num_classes=10).to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), weight_decay=1e-4, lr=0.01)
        self.loss_fn = torch.nn.CrossEntropyLoss()
        self.ends = []

    def step_fn(self, data, target):
        self.optimizer.zero_grad()
        loss = self.loss_fn(self.model(data), target)
        loss.backward()
        xm.optimizer_step(self.optimizer)
        return loss

    def start_training(self):
        tracker = xm.RateTracker()
        self.model.train()
        for step, (data, target) in enumerate(self.train_device_loader):
            loss = self.step_fn(data, target)
            tracker.add(self.batch_size)
            if step % 10 == 0:
                xm.add_step_closure(
                    lambda step, loss: print(f"step {step} loss {loss.item():.5f}"), args=(step, loss)
                )
            self.ends.append(time.perf_counter())
        xm.wait_device_ops()


if __name__ == "__main__":
    base = TrainResNetBase()
    base.start_training()
    ends = base.ends
    print(f"{(time.perf_counter() - ends[4]) / (len(ends) - 5) * 1e3:.2f} ms per step on {xr.device_type()}")
    print("seconds", *(f"{b - a:.5f}" for a, b in zip(ends, ends[1:])))
