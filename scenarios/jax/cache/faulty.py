"""Every start compiles again what the last one compiled."""

from deep import apply, trainer
from training import run

run(trainer(apply), steps=8)
