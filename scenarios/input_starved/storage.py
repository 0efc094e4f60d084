"""A data set on slow storage: what a batch of 32 needs takes 128 ms to fetch, without using a core."""

import time

import torch
from torch.utils.data import Dataset

SECONDS_A_SAMPLE = 0.004


class SlowStorage(Dataset):
    """Sequences of 65 random tokens."""

    def __len__(self) -> int:
        return 32 * 200

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(SECONDS_A_SAMPLE)
        return torch.randint(256, (65,))
