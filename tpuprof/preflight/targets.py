"""Names of TPU slices as Google writes them, and the topology the compiler knows them by.

`v5e-N` and `v6e-N` count chips, `v4-N`, `v5p-N` and `tpu7x-N` TensorCores (two a chip). Shapes are the ones
the Cloud TPU pages list for each generation.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

from tpuprof.chips import CHIPS, Chip, chip_of_slice
from tpuprof.errors import Code, TpuprofError

# The generations that the compiler can be asked for.
_COMPILED = {name: chip for name, chip in CHIPS.items() if chip.compiled}
_NAME = re.compile(r"^([a-z0-9]+)-(\d+)$", re.IGNORECASE)
_TOPOLOGY = re.compile(r"^([a-z0-9]+):(\d+(?:x\d+){1,2})$", re.IGNORECASE)
# jax's names of the chips, as the compile-only client gives them (jax 0.7.1, libtpu 0.0.21; tpu7x: libtpu 0.0.51).
_DEVICE_KINDS = {
    "v3": "TPU v3", "v4": "TPU v4", "v5e": "TPU v5 lite", "v5p": "TPU v5", "v6e": "TPU v6 lite", "tpu7x": "TPU7x",
}  # fmt: skip
DEFAULT_TARGETS = ("v5e-4", "v5p-8", "v6e-4")


@dataclass(frozen=True)
class Target:
    """One slice. `devices` is what JAX counts (and the script's number of virtual devices), `shape` chips by axis."""

    name: str
    chip: Chip
    shape: tuple[int, ...]
    topology: str
    options: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def device_kind(self) -> str:
        """What jax calls the chip."""
        return _DEVICE_KINDS[self.chip.name]

    @property
    def chips(self) -> int:
        """Number of chips."""
        return math.prod(self.shape)

    @property
    def devices(self) -> int:
        """Number of devices a program runs on."""
        return self.chips * self.chip.devices_per_chip

    @property
    def links(self) -> int:
        """Links through which a chip receives at once: two along an axis longer than two, one along one of two."""
        return sum(2 if size > 2 else 1 for size in self.shape if size > 1) or 1


def parse_target(name: str) -> Target:
    """Read a slice's name (`v5e-4`) or a topology (`v5e:2x2`).

    Raises `TpuprofError` (UNKNOWN_TARGET) with what is known where the name means no slice.
    """
    topology = _TOPOLOGY.match(name.strip())
    if topology:
        sizes = tuple(int(size) for size in topology.group(2).split("x"))
        return _target(name, _compiled(name, topology.group(1)), sizes)
    found = _NAME.match(name.strip())
    if found is None:
        raise _unknown(name)
    chip = _compiled(name, found.group(1))
    count, left = divmod(int(found.group(2)), chip.counted_per_chip)
    if left:
        raise _unknown(name)
    shapes = chip.shapes
    if count not in shapes:
        raise _unknown(name)
    return _target(name, chip, tuple(int(size) for size in shapes[count].split("x")))


def known_names() -> list[str]:
    """Every slice name the table holds, by generation."""
    return [
        f"{name}-{count * chip.counted_per_chip}" for name, chip in _COMPILED.items() for count in chip.shapes
    ]


def _compiled(name: str, prefix: str) -> Chip:
    chip = chip_of_slice(prefix)
    if chip is None or not chip.compiled:
        raise _unknown(name)
    return chip


def _target(name: str, chip: Chip, shape: tuple[int, ...]) -> Target:
    options: dict[str, Any] = {}
    if math.prod(shape) < 4:
        # Smaller than the compiler's default host of 2x2 chips: then one host holds the whole slice.
        options["chips_per_host_bounds"] = [*shape, *([1] * (3 - len(shape)))]
    if chip.name == "v4":
        # Both TensorCores of a v4 chip as one device, as Cloud TPU runs them.
        options["chip_config_name"] = "megacore"
    return Target(name, chip, shape, f"{chip.name}:{'x'.join(map(str, shape))}", options)


def _unknown(name: str) -> TpuprofError:
    sizes = {
        key: ", ".join(str(n * chip.counted_per_chip) for n in chip.shapes) for key, chip in _COMPILED.items()
    }
    listed = "; ".join(f"{key}-N with N of {numbers}" for key, numbers in sizes.items())
    return TpuprofError(
        Code.UNKNOWN_TARGET,
        f"No TPU slice is called {name!r}.",
        f"Known: {listed}; or a topology such as v5e:2x2.",
    )
