"""Batches from slow storage: each is waited for, decoded and scaled."""

import time
from collections.abc import Iterator

import numpy as np

_raw = np.random.default_rng(0).integers(0, 255, size=(256, 256), dtype=np.uint8)


def batches() -> Iterator[np.ndarray]:
    """Batches without end."""
    while True:
        time.sleep(0.02)
        picture = _raw.astype(np.float32) / 255
        picture -= picture.mean(axis=0)
        yield picture
