"""Worker processes fetch the batches ahead."""

import torch_xla
from common import Shape, Trainer, decoder, run
from storage import SlowStorage
from torch.utils.data import DataLoader

train = Trainer(decoder(Shape(layers=2, width=128)))
device = torch_xla.device()
batches = iter(DataLoader(SlowStorage(), batch_size=32, num_workers=4, prefetch_factor=4))
run(lambda _: train(next(batches).to(device)))
