"""A model whose blocks may call what dynamo cannot trace, as it cannot trace C extensions and loggers."""

from __future__ import annotations

import torch

DEPTH = 8
seen: dict[tuple[int, ...], int] = {}


@torch.compiler.disable
def seen_by_python(shape: torch.Size) -> None:
    """Count how often a shape was seen."""
    seen[tuple(shape)] = seen.get(tuple(shape), 0) + 1


def blocks(width: int) -> torch.nn.ModuleList:
    """Linear layers on the device, always with the same parameters."""
    torch.manual_seed(0)
    return torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(DEPTH)).to("tpu")
