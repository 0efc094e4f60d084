"""Torch in a program of JAX: ops on tensors of the CPU are the program's own work, and hand nothing over.

torchax looks at every torch op while its modes are on (`torchax.enable_globally()`), and runs those without one of its
own tensors as torch itself does. Both have frames of torchax and torch on the stack: what is below them tells which.
"""

from __future__ import annotations

import re
from collections import Counter

from tpuprof.model.host.op_cost import Sample
from tpuprof.model.host.stacks import FRAMEWORK, PLAIN, Stack

_FILE = r"\(.*-packages/{}:\d+\)$"
# Functions of torchax through which each op goes, whatever its tensors are. Its other ones work for its own tensors.
_ON_THE_WAY = re.compile(
    r"(?:__torch_function__|__torch_dispatch__|dispatch|is_not_torchax_tensor|log_nested|_make_debug_msg|_name_of_func"
    r"|_torch_Tensor_to|_to_copy|_is_same_device|_handle_tensor_constructor|_should_use_torchax_tensor"
    r"|<(?:genexpr|listcomp)>) " + _FILE.format(r"torchax/tensor\.py")
)
# What torchax calls as torch has it: no op of its own is an `OpOverload`.
_OP_OF_TORCH = re.compile(r"__call__ " + _FILE.format(r"torch/_ops\.py"))
# What its functions above call where no tensor is torchax's: its own ops are `op.func(...)`.
_CALLS_TORCH = re.compile(r"func\(\*args, \*\*kwargs\)$|(?:res|torch_tensor)\.to\(device=")
_DISPATCHES = re.compile(
    r"(?:dispatch|_to_copy|_handle_tensor_constructor) " + _FILE.format(r"torchax/tensor\.py")
)
_PACKAGED = "-packages/"
_TORCH, _TORCHAX, _JAX = "-packages/torch/", "-packages/torchax/", "-packages/jax/"


def mark_host_tensors(samples: list[Sample], stacks: list[Stack]) -> None:
    """Count samples in torch that works on tensors of the CPU as other code than a framework's.

    A sample on the way to an op is what the other samples at its line are, by most of them. Where none of these tells,
    torch alone hands nothing over.
    """
    own = [_works_on_cpu(each) for each in stacks]
    votes: Counter[str] = Counter()
    told = set()
    for each in samples:
        if each.stack >= 0 and own[each.stack] is not None:
            votes[stacks[each.stack].line] += 1 if own[each.stack] else -1
            told.add(stacks[each.stack].line)
    for each in samples:
        if each.family != FRAMEWORK or each.stack < 0 or own[each.stack] is False:
            continue
        line = stacks[each.stack].line
        alone = line not in told and _in_torch_alone(stacks[each.stack])
        if own[each.stack] or votes[line] > 0 or alone:
            each.family = PLAIN


def _in_torch_alone(stack: Stack) -> bool:
    """Whether a stack is in torch, with no frame of torchax or JAX."""
    frames = [frame.replace("\\", "/") for frame in stack.frames if _PACKAGED in frame.replace("\\", "/")]
    return bool(frames) and _TORCH in frames[-1] and not any(_TORCHAX in f or _JAX in f for f in frames)


def _works_on_cpu(stack: Stack) -> bool | None:
    """Whether a stack is in torch's own work on tensors of the CPU; None where it may be on the way to an op."""
    frames = [frame.replace("\\", "/") for frame in stack.frames]
    if not frames or any(_JAX in frame for frame in frames):
        # Below JAX torch is traced, or waits for it.
        return False
    torchax = [frame for frame in frames if _TORCHAX in frame]
    if not torchax:
        # The Python of a module or a function of torch, which calls ops of either kind; or other code.
        return None
    if not all(map(_ON_THE_WAY.match, torchax)):
        return False
    above = frames[-2] if len(frames) > 1 else ""
    if _OP_OF_TORCH.match(frames[-1]) and _TORCHAX in above:
        return True
    return True if _DISPATCHES.match(frames[-1]) and _CALLS_TORCH.match(stack.call) else None
