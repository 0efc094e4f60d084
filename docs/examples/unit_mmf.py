"""A small multitask transformer in the manner of UniT (MMF), with the three faults of a well-known case study.

An image encoder and a text encoder feed one decoder, as in "UniT: Multimodal Multitask Learning with a Unified
Transformer" (Hu and Singh, 2021). The PyTorch/XLA team profiled such a program on a Cloud TPU VM and found ops that run
on the host, values that are read in every step, and an input pipeline that is too slow. This script has one fault of
each kind; `--fix` removes them: fallback, reads, input, or several with commas. Data and weights are random.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torch_xla.distributed.parallel_loader import MpDeviceLoader

import tpuprof

BATCH, WIDTH, PATCH, SIDE = 16, 128, 8, 64
WORDS, WORDS_PER_TEXT, ANSWERS, PICTURES = 4000, 24, 64, 64
SHRINK = 6  # pictures are this many times larger in their files
WARMUP = 15
FIXES = ("fallback", "reads", "input")


class Pictures(Dataset):
    """Pictures with questions. They are decoded and resized in each epoch, or `once`, before training."""

    def __init__(self, length: int, *, once: bool) -> None:
        self.length = length
        self.small = [decoded(each) for each in range(PICTURES)] if once else None

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, int]:
        name = index % PICTURES
        picture = self.small[name] if self.small is not None else decoded(name)
        random = np.random.default_rng(index)
        words = torch.from_numpy(random.integers(WORDS, size=WORDS_PER_TEXT))
        return picture, words, int(random.integers(ANSWERS))


def decoded(name: int) -> Tensor:
    """A picture as a file holds it, in its full size, then normalized and resized."""
    picture = np.random.default_rng(name).standard_normal((3, SHRINK * SIDE, SHRINK * SIDE), dtype=np.float32)
    picture = (picture - picture.mean((1, 2), keepdims=True)) / picture.std((1, 2), keepdims=True)
    return torch.from_numpy(picture.reshape(3, SIDE, SHRINK, SIDE, SHRINK).mean((2, 4)))


class Text(nn.Module):
    """A question as the mean of its words' vectors. torch_xla does not lower `EmbeddingBag`: it runs on the host."""

    def __init__(self, *, lowered: bool) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(WORDS, WIDTH, mode="mean")
        self.lowered = lowered

    def forward(self, words: Tensor) -> Tensor:
        """Token numbers [batch, words] become vectors [batch, width]."""
        if self.lowered:
            return nn.functional.embedding(words, self.bag.weight).mean(1)
        return self.bag(words)


class UniT(nn.Module):
    """Encodes pictures, lets the question attend to them, and chooses an answer."""

    def __init__(self, *, lowered: bool) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.text = Text(lowered=lowered)
        decoder = nn.TransformerDecoderLayer(WIDTH, 4, 2 * WIDTH, 0.0, batch_first=True)
        self.decoder = nn.TransformerDecoder(decoder, 1)
        self.answers = nn.Linear(WIDTH, ANSWERS)

    def forward(self, pictures: Tensor, words: Tensor) -> Tensor:
        """Pictures [batch, 3, side, side] and token numbers [batch, words] become scores [batch, answers]."""
        seen = self.encoder(self.patches(pictures).flatten(2).transpose(1, 2))
        asked = self.text(words).unsqueeze(1)
        return self.answers(self.decoder(asked, seen).squeeze(1))


class Meter:
    """Keeps the loss of each step. Adding a number of the device to a float reads it: the host waits."""

    def __init__(self, *, on_device: bool) -> None:
        self.on_device = on_device
        self.total: Tensor | float = 0.0
        self.count = 0

    def add(self, loss: Tensor) -> None:
        """Add the loss of one step."""
        self.total = self.total + (loss.detach() if self.on_device else loss.item())
        self.count += 1


def batches(steps: int, *, ahead: bool) -> Iterator[list[Tensor]]:
    """Batches on the device: made when training needs one, or ahead of it by a thread of the loader."""
    device = torch_xla.device()
    loader = DataLoader(Pictures(steps * BATCH, once=ahead), BATCH)
    if ahead:
        return iter(MpDeviceLoader(loader, device))
    return ([each.to(device) for each in batch] for batch in loader)


def main() -> None:
    """Train, and print the loss and the time of a step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", default="", help="Faults to remove, with commas: " + ", ".join(FIXES))
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    fixed = {each for each in options.fix.split(",") if each}
    if not fixed <= set(FIXES):
        parser.error(f"--fix takes {', '.join(FIXES)}")
    torch.manual_seed(0)
    model = UniT(lowered="fallback" in fixed).to(torch_xla.device())
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    meter = Meter(on_device="reads" in fixed)
    began = 0.0
    for number, (pictures, words, answers) in enumerate(batches(options.steps, ahead="input" in fixed)):
        if number == WARMUP:
            began = time.perf_counter()
        with tpuprof.step(number, samples=BATCH):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(pictures, words), answers)
            loss.backward()
            # MpDeviceLoader cuts the graph itself when the next batch is asked for.
            xm.optimizer_step(optimizer, barrier="input" not in fixed)
            meter.add(loss)
    torch_xla.sync(wait=True)
    step = (time.perf_counter() - began) / (options.steps - WARMUP)
    print(f"loss {float(meter.total) / meter.count:.4f}")
    print(f"step_ms: {step * 1e3:.1f}  samples/s: {BATCH / step:.0f}")


if __name__ == "__main__":
    main()
