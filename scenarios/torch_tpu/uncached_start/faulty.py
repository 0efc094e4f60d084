"""Every layer has a width of its own, so its ops share no program with another's: the start compiles them all."""

from stack import train

train(widths=[64 + 4 * layer for layer in range(200)])
