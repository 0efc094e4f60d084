"""Nothing keeps compiled programs: every start compiles the whole model again."""

from stack import train

train()
