"""The window's width is a tensor: an input of one graph."""

import torch
from common import WARMUP, run
from windowed import LENGTH, batch, train

STEPS = 8
positions = torch.arange(LENGTH).to(batch.device)
distance = positions[None, :] - positions[:, None]
# On the device beforehand: one thread there would hold the host up until it has run the step before.
widths = [torch.tensor(2 + number).to(batch.device) for number in range(WARMUP + STEPS)]
run(lambda number: train((distance >= widths[number]).float()), steps=STEPS)
