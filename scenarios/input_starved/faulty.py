"""Each batch is fetched from slow storage (128 ms) when the step asks for it."""

import torch_xla
from common import Shape, Trainer, decoder, run
from storage import SlowStorage
from torch.utils.data import DataLoader

train = Trainer(decoder(Shape(layers=2, width=128)))
device = torch_xla.device()
batches = iter(DataLoader(SlowStorage(), batch_size=32))
run(lambda _: train(next(batches).to(device)))
