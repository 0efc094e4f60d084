"""Samples that take a while to decode: each is sorted and summed over a few times."""

from __future__ import annotations

import torch
from torch.utils.data import Dataset, default_collate

COUNT, WIDTH, CLASSES, ROUNDS = 100_000, 256, 10, 4


def _decoded(number: int) -> tuple[torch.Tensor, int]:
    noise = torch.arange(8_192, dtype=torch.float32).mul(number + 1).sin()
    for _ in range(ROUNDS):
        noise = noise.sort().values.cumsum(0).sin()
    return noise[:WIDTH], number % CLASSES


class Decoded(Dataset):
    """Decodes a sample each time it is asked for."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        return _decoded(number)


class Kept(Dataset):
    """Decodes a few batches when it is made, and gives those again and again."""

    def __init__(self, kept: int = 2, rows: int = 32) -> None:
        samples = [_decoded(number) for number in range(kept * rows)]
        batches = (samples[at : at + rows] for at in range(0, len(samples), rows))
        self._batches = [default_collate(batch) for batch in batches]

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, number: int) -> list[torch.Tensor]:
        return self._batches[number % len(self._batches)]
