"""Layer dropout decided in Python: each choice of layers is a graph of its own."""

from common import Shape, Trainer, decoder, run, tokens


def some_layers(layers, x):
    for position, layer in enumerate(layers):
        # Counting in binary takes every choice of layers once.
        if choice >> position & 1:
            x = layer(x)
    return x


train = Trainer(decoder(Shape(layers=6, width=64), run_layers=some_layers))
batch = tokens(32, 49)


def step(number: int) -> None:
    global choice
    choice = 8 + number
    train(batch)


run(step, steps=8)
