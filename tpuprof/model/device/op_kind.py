"""What kind of work an HLO op is, from its category, its opcode and the memory spaces it names."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache

# The opcode follows the result shape: `%name = f32[2]{0} opcode(...)`.
_OPCODE = re.compile(r"[)}\]] ([a-z][a-z0-9\-]*)\(")
_NUMBER = re.compile(r"\.\d+$|\.clone$|\.remat\d*$")
# Host memory is memory space 5 in layouts (`S(5)`).
HOST_MEMORY = "S(5)"
# Memory of the chip's core, VMEM, is memory space 1.
ON_CHIP = "S(1)"
# An array with its layout, as an HLO line writes results and operands.
ARRAY = re.compile(r"\b(?:pred|bf16|[suf]\d+\w*|c64|c128)\[[\d,]*\](?:\{[^}]*\})?")
# What ops that sort are called.
SORTS = re.compile(r"(?:sort|top_?k)(?:\.|$)")

COLLECTIVES = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "ragged-all-to-all",
    "collective-permute",
    "collective-broadcast",
    "send",
    "recv",
)
_NAMES_COLLECTIVE = re.compile("|".join(("collective", *COLLECTIVES)))
# Categories of transfers with the host: `host send`, `host recv-done`.
_WITH_THE_HOST = ("host send", "host recv", "host-send", "host-recv")
_HOST_IO = ("infeed", "outfeed", *_WITH_THE_HOST)
# What attributes of transfers across slices hold: `_xla_megascale_transfer_type`, `xla_megascale_runtime`.
MEGASCALE = "xla_megascale"
_CONTAINERS = ("while", "call", "conditional", "async-start-call")
_MATMULS = ("convolution", "dot")
CUSTOM_CALL = "custom-call"
# Targets of custom calls that run a Python function of the program: `xla_ffi_python_cpu_callback`, also partitioned.
_PYTHON_CALLBACK = re.compile(r"python\w*callback")
# Asynchronous work that is not a collective and not for the host: mostly prefetches between HBM and VMEM (`S(1)`).
_ASYNC = re.compile(
    r"(?:copy|slice|dynamic-slice|dynamic-update-slice|async|call|custom-call)-(?:start|update|done)$"
)
_OFFLOAD_OPCODES = ("copy", "async", "dynamic-slice", "dynamic-update-slice", "slice")


class OpKind(IntEnum):
    """Kinds of device work, in the order in which a moment's work is counted when ops run side by side."""

    COMPUTE = 0
    INFEED_OUTFEED = 1
    OFFLOAD = 2
    COLLECTIVE = 3
    CONTAINER = 4
    # Beginning and awaiting asynchronous work of the chip itself. The core computes nothing meanwhile.
    ASYNC_WAIT = 5
    # The program waits for a Python function on the host: `jax.pure_callback`, `io_callback`, `jax.debug.print`.
    HOST_CALLBACK = 6


@lru_cache(maxsize=16_384)
def opcode(long_name: str, short_name: str) -> str:
    """The HLO opcode of an op, from its full HLO line, else from its name without number (`dot.12` is `dot`)."""
    found = _OPCODE.search(long_name) if " = " in long_name else None
    if found:
        return found.group(1)
    name = short_name or long_name
    shortened = _NUMBER.sub("", name)
    while shortened != name:
        name, shortened = shortened, _NUMBER.sub("", shortened)
    return name.lstrip("%")


@lru_cache(
    maxsize=16_384
)  # an op is asked about by its opcode, its category and its name, by several readers
def collective_kind(name: str) -> str | None:
    """`all-gather`, `reduce-scatter`, ... if an op of that opcode, name or category is a collective.

    Fused and asynchronous forms count: `all-reduce-start`, `all-gather fusion`, `async-collective-fusion`.
    """
    name = name.lower().replace("_", "-")
    if not _NAMES_COLLECTIVE.search(name):
        return None
    for kind in COLLECTIVES:
        if name.startswith(kind):
            return kind
    if "collective" in name:
        return "collective fusion"
    return next((kind for kind in COLLECTIVES[:6] if kind in name), None)


@lru_cache(maxsize=16_384)  # the devices of a host run the same ops
def op_kind(long_name: str, short_name: str, category: str) -> OpKind:
    """The kind of one op; `category` is the profiler's `hlo_category`, empty where it gives none."""
    code = opcode(long_name, short_name)
    category = category.lower()
    if code in _CONTAINERS or category in _CONTAINERS:
        return OpKind.CONTAINER
    for_host = _kind_for_host(code, category, long_name)
    if for_host is not None:
        return for_host
    if category.endswith("fusion") and not collective_kind(category):
        # A matmul with communication fused in is called `async-collective-fusion.N` and computes.
        return OpKind.COMPUTE
    if collective_kind(code) or collective_kind(category) or collective_kind(short_name):
        return OpKind.COLLECTIVE
    if HOST_MEMORY in long_name and code.startswith(_OFFLOAD_OPCODES):
        return OpKind.OFFLOAD
    return OpKind.ASYNC_WAIT if _ASYNC.match(code) else OpKind.COMPUTE


def _kind_for_host(code: str, category: str, long_name: str) -> OpKind | None:
    """The kind of an op that hands something to the host or waits for it; None of others."""
    if MEGASCALE in long_name:
        return OpKind.COLLECTIVE
    if category.startswith(_HOST_IO) or code in ("infeed", "outfeed"):
        return OpKind.INFEED_OUTFEED
    calls = CUSTOM_CALL in (code, category.partition(" ")[0])
    return OpKind.HOST_CALLBACK if calls and _PYTHON_CALLBACK.search(f"{category} {long_name}") else None


def with_the_host(category: str) -> bool:
    """Whether a category is that of a `send` or `recv` with the host, whatever for."""
    return category.lower().startswith(_WITH_THE_HOST)


def is_matmul(category: str, long_name: str, name: str) -> bool:
    """Whether an op multiplies matrices: by its category (TPU profilers name fusions so), else by its HLO line."""
    return category.lower().startswith(_MATMULS) or opcode(long_name, name) in _MATMULS
