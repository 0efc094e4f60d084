"""All layers have one width, so each op is compiled once for all of them."""

from stack import train

train(widths=[160] * 200)
