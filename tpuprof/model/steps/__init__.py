"""Where each training step begins and ends, what it was read from, and how sure that is."""

from tpuprof.model.steps.find import find_steps
from tpuprof.model.steps.table import Steps, StepSource, no_steps

__all__ = ["StepSource", "Steps", "find_steps", "no_steps"]
