"""Has torch.compile leave functions of ours alone: it would compile them as if they were the program's.

Behind a graph break dynamo looks at each Python function that is called, so also at one that is put around
`Tensor.item` or `if tensor:`. It then compiles that one for a tenth of a second, and warns of what it cannot trace in
it.
"""

from __future__ import annotations

import sys
from typing import Any

from tpuprof.instrument.state import pass_on


def skip(function: Any, *, calls_program: bool = False) -> None:
    """Have dynamo run a Python function as it is, with all that it calls unless `calls_program`. Raises nothing.

    Where torch is not loaded there is no dynamo, and later releases may have no such switch.
    """
    code, torch = getattr(function, "__code__", None), sys.modules.get("torch")
    if code is None or torch is None:
        return
    try:
        dynamo = torch._C._dynamo.eval_frame
        action = dynamo._FrameAction
        inside = action.DEFAULT if calls_program else action.SKIP
        dynamo.set_code_exec_strategy(code, dynamo._FrameExecStrategy(action.SKIP, inside))
    except (AttributeError, TypeError, ValueError) as error:
        pass_on(error)
