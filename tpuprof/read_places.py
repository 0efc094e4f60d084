"""Where a library reads a value: what its frames are not, and how an event of a read says it."""

from __future__ import annotations

import re

# Frames through which any op of a framework goes, and those of Python's own modules (logging formats what it is given):
# they are not where a value is asked for, as the checks of `torch.distributions` or `clip_grad_norm_` are.
ANY_OP = re.compile(
    r"/torch_xla/(?!_patched_functions|amp/)|/(?:torch_tpu|torchax|jax|jaxlib)/"
    r"|/torch/(?:_|utils/_|overrides\.py|nn/modules/module\.py|autograd/(?:function|graph|grad_mode)\.py|functional\.py)"
    r"|/lib/python3\.\d+/(?!(?:site|dist)-packages/)"
)
# Where a library reads a value, as a stat of the read's event, and what stands there where the program itself reads.
INSIDE, IN_NONE = "inside", "-"
