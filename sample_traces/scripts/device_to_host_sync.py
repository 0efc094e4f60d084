"""Batches that keep the device as busy as the host, and a `loss.item()` that lets only one of them work at a time."""

from common import decoder, random_tokens, record, trainer

from tpuprof.demo.decoder import Shape

train = trainer(decoder(Shape(layers=2, width=64)))


def step(_: int) -> None:
    loss = train(random_tokens(16, 65))
    loss.item()


record(step)
