"""Texts, and a tokenizer written in plain Python that takes its time."""

from collections.abc import Callable

import torch
from torch.utils.data import Dataset

TEXT = "the quick brown fox jumps over the lazy dog and then goes to sleep in the sun " * 600


def tokenize(text: str) -> torch.Tensor:
    """65 token ids: hashes of the text's pieces, folded over and over."""
    value, ids = 7, []
    for position, char in enumerate(text):
        value = (value * 31 + ord(char)) % 65521
        if position % (len(text) // 65) == 0:
            ids.append(value % 256)
    return torch.tensor(ids[:65])


class Texts(Dataset):
    """The same text again and again, through a transform."""

    def __init__(self, transform: Callable[[str], torch.Tensor]) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 16 * 200

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.transform(TEXT)
