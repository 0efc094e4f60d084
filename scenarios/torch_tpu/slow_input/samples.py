"""Samples that take a while to decode: each is sorted and summed over a few times."""

from __future__ import annotations

import torch
from torch.utils.data import Dataset

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


class Kept(Decoded):
    """Decodes a few samples when it is made, and gives those again and again."""

    def __init__(self, kept: int = 64) -> None:
        self._samples = [_decoded(number) for number in range(kept)]

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        return self._samples[number % len(self._samples)]
