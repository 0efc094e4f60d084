"""Takes the regions that `torch.compile(backend="openxla")` makes, each as the program of its own that it is.

Runs inside the training script's process. Dynamo cuts the regions and AOTAutograd makes forward and backward of them,
as in a real run; where torch_xla would compile and run a region, its graph is taken and its results become inputs
without memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves

from tpuprof.instrument.after_import import watch
from tpuprof.preflight.device_tensors import on_xla

if TYPE_CHECKING:
    from tpuprof.preflight.intercept import Recorder

BRIDGE = "torch_xla.core.dynamo_bridge"


def take_regions(recorder: Recorder) -> None:
    """Have torch_xla's bridge to dynamo give regions to the recorder, from when its module is imported."""

    def extract(model: Any, _args: Any) -> Callable[..., Any]:
        from torch_xla._dynamo.dynamo_bridge import XLAConstructorMoverPass

        XLAConstructorMoverPass()(model.graph)
        model.recompile()
        return lambda *args: _run(recorder, model, args)

    def after(name: str) -> None:
        module: Any = sys.modules[name]
        module.extract_compiled_graph = extract

    watch((BRIDGE,), after)


def _run(recorder: Recorder, model: Any, args: Any) -> Any:
    """One call of a region: what its inputs still wait for is a program of its own, and so is the region."""
    given = [each for each in args if on_xla(each)]
    recorder.on_sync_multi(given)
    with torch.no_grad():
        results = model(*args)
    recorder.on_region([*(each for each in tree_leaves(results) if on_xla(each)), *given])
    return results
