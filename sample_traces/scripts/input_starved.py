"""The decoder loop fed by a data set that takes 100 ms to make a batch, without workers to make it ahead."""

import time

import torch
import torch_xla
from common import STEPS, WARMUP, decoder, record, trainer
from torch.utils.data import DataLoader, Dataset

from tpuprof.demo.decoder import Shape

SECONDS_A_BATCH = 0.1
BATCH = 4


class SlowDataset(Dataset):
    """Batches that each take 100 ms to make."""

    def __len__(self) -> int:
        return BATCH * (WARMUP + STEPS + 4)

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(SECONDS_A_BATCH / BATCH)
        return torch.randint(Shape.vocabulary, (33,))


batches = iter(DataLoader(SlowDataset(), batch_size=BATCH))
train = trainer(decoder(Shape(layers=2, width=64)))
record(lambda _: train(next(batches).to(torch_xla.device())))
