import time

import lightning as L
import torch
import torch.nn as nn
from lightning.fabric.accelerators import XLAAccelerator
from torch.utils.data import DataLoader, TensorDataset


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            *[nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.SiLU()) for _ in range(8)],
            nn.Linear(64, 4),
        )
        self.ends = []

    def training_step(self, batch, _):
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.last = outputs["loss"]
        self.ends.append(time.perf_counter())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)


for name, value in (
    ("is_available", True),
    ("auto_device_count", 1),
):  # PJRT_DEVICE=CPU stands for a TPU here
    setattr(XLAAccelerator, name, staticmethod(lambda value=value: value))
L.seed_everything(0)
data = TensorDataset(torch.randn(320, 64), torch.randint(0, 4, (320,)))
model = Classifier()
trainer = L.Trainer(
    accelerator="tpu",
    devices=1,
    max_epochs=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(model, DataLoader(data, batch_size=8))
print("loss", model.last.item())
ends = model.ends
print(f"{(time.perf_counter() - ends[5]) / (len(ends) - 6) * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(ends, ends[1:])))
