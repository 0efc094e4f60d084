"""Traces the resizing of images as torch_xla does on a TPU: there it is a call of the compiler's own.

Runs inside the training script's process. On a CPU torch_xla lowers the forward to gathers and computes the backward on
the host, from values that do not exist here. Its sources (`csrc/aten_xla_type.cpp`, `csrc/resize_ops.cpp`) say what
it does where the device is a TPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_ATEN = torch.ops.aten
# From channels first to channels last, which the calls want, with both sides of the image exchanged; its own inverse.
_TURNED = (0, 3, 2, 1)
# Factor of both sides from which the backward resizes one side after the other (XLA_RESIZE_SPLIT_FACTOR).
_SPLIT_FROM = 3.0


def _forward(target: str, image: torch.Tensor, sides: list[int], align: bool, half: bool) -> torch.Tensor:
    height, width = image.shape[2:]
    if (height, width) == tuple(sides):
        return image
    shape = [*image.shape[:2], *sides]
    if height == width == 1:
        return image + torch.zeros(shape, dtype=image.dtype, device=image.device)
    turned = _turn(image)
    return _turn(_call(target, turned, [shape[at] for at in _TURNED], align, half))


def _backward(target: str, grad: torch.Tensor, shape: list[int], align: bool, half: bool) -> torch.Tensor:
    if tuple(grad.shape[2:]) == tuple(shape[2:]):
        return grad
    turned, made = _turn(grad), [shape[at] for at in _TURNED]
    if all(grad.shape[side] / shape[side] > _SPLIT_FROM for side in (2, 3)):
        turned = _call(target, turned, [made[0], grad.shape[2], *made[2:]], align, half)
    return _turn(_call(target, turned, made, align, half))


def _turn(image: torch.Tensor) -> torch.Tensor:
    # There are no views beneath functionalization.
    turned: torch.Tensor = _ATEN.permute_copy.default(image, _TURNED)
    return turned


def _call(target: str, image: torch.Tensor, shape: list[int], align: bool, half: bool) -> torch.Tensor:
    from torch_xla.experimental.stablehlo_custom_call import stablehlo_custom_call

    config = f'"{int(align)}{int(half)}"'
    made: torch.Tensor = stablehlo_custom_call(
        [image], target, [shape], [image.dtype], backend_config=config, api_version=1
    )
    return made


def _nearest(image: torch.Tensor, sides: list[int], *_: Any) -> torch.Tensor:
    return _forward("ResizeNearest", image, sides, False, False)


def _nearest_backward(grad: torch.Tensor, _: Any, shape: list[int], *_more: Any) -> torch.Tensor:
    return _backward("ResizeNearestGrad", grad, shape, False, False)


def _bilinear(image: torch.Tensor, sides: list[int], align: bool, *_: Any) -> torch.Tensor:
    return _forward("ResizeBilinear", image, sides, align, not align)


def _bilinear_backward(
    grad: torch.Tensor, _: Any, shape: list[int], align: bool, *_more: Any
) -> torch.Tensor:
    return _backward("ResizeBilinearGrad", grad, shape, align, not align)


RESIZES: dict[Any, Callable[..., torch.Tensor]] = {
    _ATEN.upsample_nearest2d.default: _nearest,
    _ATEN.upsample_nearest2d_backward.default: _nearest_backward,
    _ATEN.upsample_bilinear2d.default: _bilinear,
    _ATEN.upsample_bilinear2d_backward.default: _bilinear_backward,
}
