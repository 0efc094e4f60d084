"""Each batch is tokenized in Python, in the training thread, when the step asks for it."""

import torch_xla
from common import Shape, Trainer, decoder, run
from text import Texts, tokenize
from torch.utils.data import DataLoader

train = Trainer(decoder(Shape(layers=2, width=128)))
device = torch_xla.device()
batches = iter(DataLoader(Texts(tokenize), batch_size=16))
run(lambda _: train(next(batches).to(device)))
