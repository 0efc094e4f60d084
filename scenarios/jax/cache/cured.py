"""What was compiled is kept on disk: the second start loads it."""

import tempfile
from pathlib import Path

import jax
from deep import apply, trainer
from training import run

jax.config.update("jax_compilation_cache_dir", str(Path(tempfile.gettempdir(), "scenario_jax_cache")))
run(trainer(apply), steps=8)
