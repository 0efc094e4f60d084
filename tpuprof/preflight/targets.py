"""Names of TPU slices as Google writes them, and the topology the compiler knows them by.

`v5e-N` and `v6e-N` count chips, `v4-N`, `v5p-N` and `tpu7x-N` TensorCores (two a chip). Shapes are the ones
the Cloud TPU pages list for each generation.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

from tpuprof.errors import Code, TpuprofError
from tpuprof.model.hardware import CHIPS, Chip

_NAME = re.compile(r"^(v4|v5litepod|v5e|v5p|v6e|tpu7x|v7x)-(\d+)$", re.IGNORECASE)
_TOPOLOGY = re.compile(r"^(v4|v5e|v5p|v6e|tpu7x):(\d+(?:x\d+){1,2})$", re.IGNORECASE)
_ALIASES = {"v5litepod": "v5e", "v7x": "tpu7x"}
# In these generations' names the number counts TensorCores, two a chip: v5p-8 is four chips.
_COUNTS_CORES = frozenset({"v4", "v5p", "tpu7x"})
# Chips and their arrangement, from the tables of supported configurations.
_FLAT = {1: "1x1", 4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}
_CUBIC = {
    1: "1x1x1", 4: "2x2x1", 8: "2x2x2", 16: "2x2x4", 32: "2x4x4", 64: "4x4x4", 128: "4x4x8", 256: "4x8x8",
    512: "8x8x8", 1024: "8x8x16", 2048: "8x16x16", 4096: "16x16x16",
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
        return _target(
            name, topology.group(1).lower(), tuple(int(size) for size in topology.group(2).split("x"))
        )
    found = _NAME.match(name.strip())
    if found is None:
        raise _unknown(name)
    generation = found.group(1).lower()
    generation = _ALIASES.get(generation, generation)
    count = int(found.group(2))
    if generation in _COUNTS_CORES:
        if count % 2:
            raise _unknown(name)
        count //= 2
    shapes = _shapes(generation)
    if count not in shapes:
        raise _unknown(name)
    return _target(name, generation, tuple(int(size) for size in shapes[count].split("x")))


def known_names() -> list[str]:
    """Every slice name the table holds, by generation."""
    names = []
    for generation in CHIPS:
        factor = 2 if generation in _COUNTS_CORES else 1
        names += [f"{generation}-{count * factor}" for count in _shapes(generation)]
    return names


def _shapes(generation: str) -> dict[int, str]:
    return _CUBIC if CHIPS[generation].torus_axes == 3 else _FLAT


def _target(name: str, generation: str, shape: tuple[int, ...]) -> Target:
    chip = CHIPS[generation]
    options: dict[str, Any] = {}
    if math.prod(shape) < 4:
        # Smaller than the compiler's default host of 2x2 chips: then one host holds the whole slice.
        options["chips_per_host_bounds"] = [*shape, *([1] * (3 - len(shape)))]
    if generation == "v4":
        # Both TensorCores of a v4 chip as one device, as Cloud TPU runs them.
        options["chip_config_name"] = "megacore"
    return Target(name, chip, shape, f"{generation}:{'x'.join(map(str, shape))}", options)


def _unknown(name: str) -> TpuprofError:
    sizes = {
        key: ", ".join(str(n * (2 if key in _COUNTS_CORES else 1)) for n in _shapes(key)) for key in CHIPS
    }
    listed = "; ".join(f"{key}-N with N of {numbers}" for key, numbers in sizes.items())
    return TpuprofError(
        Code.UNKNOWN_TARGET,
        f"No TPU slice is called {name!r}.",
        f"Known: {listed}; or a topology such as v5e:2x2.",
    )
