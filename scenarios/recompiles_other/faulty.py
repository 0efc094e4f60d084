"""Which layers' outputs are scaled is decided in Python: each choice is a graph of its own."""

from common import Shape, Trainer, decoder, run, tokens


def some_scaled(layers, x):
    for position, layer in enumerate(layers):
        x = layer(x)
        # Counting in binary takes every choice of layers once.
        if choice >> position & 1:
            x = 0.5 * x
    return x


train = Trainer(decoder(Shape(layers=4, width=128), run_layers=some_scaled))
batch = tokens(32, 49)


def step(number: int) -> None:
    global choice
    choice = number
    train(batch)


run(step, steps=8)
