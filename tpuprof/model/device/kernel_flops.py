"""FLOPs of Pallas kernels from the shapes of their operands: XLA does not see inside, and states few or none.

Known are JAX's flash and splash attention, by their kernels' names. A matrix multiplication of `m x k` by `k x n` is
2mkn FLOPs (Dao and others, FlashAttention, 2022, for how many of them each kernel makes).
"""

from __future__ import annotations

import re

from tpuprof.decode.hlo_shape import parse_shape, split_parts

# Matrix multiplications of queries x keys x head size in each kernel: scores and values forward; the scores again, the
# gradient of the scores, and one (of queries) or two (of keys and values) gradients backward.
_FORWARD, _OF_QUERIES, _OF_KEYS = 2, 3, 4
_ATTENTION = re.compile(r"flash|splash", re.IGNORECASE)
_KEYS = re.compile(r"dkv", re.IGNORECASE)
_QUERIES = re.compile(r"dq", re.IGNORECASE)
# A causal kernel skips the blocks above the diagonal, about half of them; the trace does not say which mask it has.
_CAUSAL = 0.5
_CALL = re.compile(r"\bcustom-call\((?P<operands>.*?)\), custom_call_target=")


def kernel_flops(name: str, long_name: str) -> int | None:
    """FLOPs of one execution at least, as if the mask were causal; None where the kernel is not known.

    Queries are the first operand of at least three dimensions, keys the next: `[..., heads, length, head size]`.
    """
    if not _ATTENTION.search(name):
        return None
    call = _CALL.search(long_name)
    if call is None:
        return None
    shapes = [parse_shape(part) for part in split_parts(call["operands"])]
    floats = [
        each for each in shapes if each.element_type in ("bf16", "f16", "f32") and len(each.dimensions) >= 3
    ]
    if len(floats) < 2:
        return None
    queries, keys = floats[0].dimensions, floats[1].dimensions
    if queries[-1] != keys[-1]:
        return None
    multiplications = _OF_KEYS if _KEYS.search(name) else _OF_QUERIES if _QUERIES.search(name) else _FORWARD
    heads = 1
    for size in queries[:-2]:
        heads *= size
    return round(_CAUSAL * 2 * multiplications * heads * queries[-2] * keys[-2] * queries[-1])
