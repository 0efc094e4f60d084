"""What a TPU generation can do: peaks, clock, memory and links, each with where the number comes from.

Compute, HBM bandwidth and interconnect are Google's, from the Cloud TPU system-architecture pages (v4, v5e, v5p,
v6e, TPU7x), per chip. Usable HBM is what the compiler itself allows (`of X hbm` in its out-of-memory text, libtpu
0.0.21 and 0.0.51): the chip's memory less what the runtime reserves.
"""

from __future__ import annotations

from tpuprof.records import dataclass

_GIB = 1 << 30


@dataclass(frozen=True)
class Chip:
    """One generation, counted by JAX device: a chip, but for TPU7x, whose chip is two devices.

    `clock_hz` turns the compiler's cycle estimates into time. `ici_bytes_per_s` is one link in one direction,
    `host_bytes_per_s` the PCIe link of one chip in one direction.
    """

    name: str
    device_type: str
    peak_flops_per_s: float
    hbm_bytes: int
    hbm_usable_bytes: int
    hbm_bytes_per_s: float
    clock_hz: float
    clock_source: str
    ici_bytes_per_s: float
    host_bytes_per_s: float
    host_source: str
    torus_axes: int
    devices_per_chip: int = 1


_PCIE_BOOK = "PCIe figure of jax-ml's scaling book (about 15 GB/s a chip)"

CHIPS = {
    "v4": Chip(
        name="v4", device_type="TPU v4", peak_flops_per_s=275e12, hbm_bytes=32 * _GIB,
        hbm_usable_bytes=int(30.75 * _GIB), hbm_bytes_per_s=1228e9, clock_hz=1.05e9,
        clock_source="Jouppi et al., TPU v4 (ISCA 2023): 1050 MHz", ici_bytes_per_s=50e9,
        host_bytes_per_s=15e9, host_source=_PCIE_BOOK, torus_axes=3,
    ),
    "v5e": Chip(
        name="v5e", device_type="TPU v5 lite", peak_flops_per_s=197e12, hbm_bytes=16 * _GIB,
        hbm_usable_bytes=int(15.75 * _GIB), hbm_bytes_per_s=819e9, clock_hz=1.5e9,
        clock_source="jax-ml's scaling book, chapter TPUs: 1.5 GHz", ici_bytes_per_s=50e9,
        host_bytes_per_s=15e9, host_source=_PCIE_BOOK, torus_axes=2,
    ),
    "v5p": Chip(
        name="v5p", device_type="TPU v5", peak_flops_per_s=459e12, hbm_bytes=int(96 * _GIB),
        hbm_usable_bytes=int(95.74 * _GIB), hbm_bytes_per_s=2765e9, clock_hz=1.75e9,
        clock_source="459 TFLOP/s over 8 MXUs of 128x128 (Cloud TPU v5p page): 1.75 GHz", ici_bytes_per_s=100e9,
        host_bytes_per_s=15e9, host_source=_PCIE_BOOK, torus_axes=3,
    ),
    "v6e": Chip(
        name="v6e", device_type="TPU v6 lite", peak_flops_per_s=918e12, hbm_bytes=32 * _GIB,
        hbm_usable_bytes=int(31.24 * _GIB), hbm_bytes_per_s=1638e9, clock_hz=1.75e9,
        clock_source="VMEM peaks a v6e states in its trace are whole KiB a cycle at 1.75 GHz, and at that clock the "
        "estimates of its elementwise fusions are within 2 % of their measured times", ici_bytes_per_s=100e9,
        host_bytes_per_s=28.9e9, host_source="measured in a public v6e trace: 28.4 GB/s to host, 29.4 GB/s back",
        torus_axes=2,
    ),
    "tpu7x": Chip(
        name="tpu7x", device_type="TPU7x", peak_flops_per_s=2307e12 / 2, hbm_bytes=96 * _GIB,
        hbm_usable_bytes=int(94.74 * _GIB), hbm_bytes_per_s=7380e9 / 2, clock_hz=2.5e9,
        clock_source="not public; 2.5 GHz puts a 4096-wide matmul as far above FLOPs over peak as on v4, v5e, v5p "
        "and v6e (9 %)", ici_bytes_per_s=100e9,
        host_bytes_per_s=15e9, host_source=_PCIE_BOOK, torus_axes=3, devices_per_chip=2,
    ),
}  # fmt: skip


def chip_of(device_type: str) -> Chip | None:
    """The generation a device plane or a JAX device names (`TPU v6 Lite`), None where it is not known."""
    wanted = device_type.lower()
    return next((chip for chip in CHIPS.values() if chip.device_type.lower() == wanted), None)
