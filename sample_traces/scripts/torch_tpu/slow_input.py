"""The same loop fed by a data set that takes 100 ms to make a batch, without workers to make it ahead."""

import time

import torch
from on_torch_tpu import CLASSES, STEPS, WARMUP, WIDTH, record, trainer
from torch.utils.data import DataLoader, Dataset

SECONDS_PER_BATCH, BATCH = 0.1, 4


class SlowDataset(Dataset):
    """Batches that each take 100 ms to make."""

    def __len__(self) -> int:
        return BATCH * (WARMUP + STEPS + 4)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(SECONDS_PER_BATCH / BATCH)
        return torch.randn(WIDTH), index % CLASSES


batches = iter(DataLoader(SlowDataset(), batch_size=BATCH))
train = trainer()


def step(_: int) -> None:
    inputs, classes = next(batches)
    train(inputs.to("tpu"), classes.to("tpu"))


record(step)
