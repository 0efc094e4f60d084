"""The texts are tokenized once, before training."""

import torch_xla
from common import Shape, Trainer, decoder, run
from text import Texts, tokenize
from torch.utils.data import DataLoader

ready = Texts(tokenize)
ready = [ready[index] for index in range(16)] * 200
train = Trainer(decoder(Shape(layers=2, width=128)))
device = torch_xla.device()
batches = iter(DataLoader(ready, batch_size=16))
run(lambda _: train(next(batches).to(device)))
