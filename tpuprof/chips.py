"""What a TPU generation is: names, peaks, clock, memory, links and cores, each number with where it comes from.

Compute, HBM and interconnect are Google's, from the Cloud TPU pages of each generation (v2 to TPU7x), per chip there.
Usable HBM is what the compiler itself allows (`of X hbm` in its out-of-memory text, libtpu 0.0.21 and 0.0.51): the
chip's memory less what the runtime reserves. A number that nobody publishes is None.
"""

from __future__ import annotations

from tpuprof.records import record

_GIB = 1 << 30


@record(frozen=True)
class Chip:
    """One generation, counted by JAX device: a chip from v4 on, but a core of v2, v3 and TPU7x, whose chip has two.

    `names` are what device planes, JAX and the runtime call it; `slices` what precedes the number in a slice's name, of
    which the first is the one Google writes. `slice_counts_cores` says that this number counts TensorCores, two a
    chip. `clock_hz` turns the compiler's cycle estimates into time. `ici_bytes_per_s` is one link in one direction,
    `host_bytes_per_s` the PCIe link of one chip in one direction. `cores_per_device` is TensorCores that run one
    program together (megacore), `mxu` the width of a matrix unit. `compiled` says that preflight can compile for it.
    """

    name: str
    names: tuple[str, ...]
    slices: tuple[str, ...]
    peak_flops_per_s: float
    hbm_bytes: int
    hbm_usable_bytes: int
    hbm_bytes_per_s: float
    clock_hz: float
    clock_source: str
    ici_bytes_per_s: float
    host_bytes_per_s: float | None
    host_source: str
    torus_axes: int
    mxu: int
    devices_per_chip: int = 1
    cores_per_device: int = 1
    sparse_cores: int = 0
    slice_counts_cores: bool = False
    compiled: bool = True

    @property
    def device_type(self) -> str:
        """The name a device plane states."""
        return self.names[0]

    @property
    def shapes(self) -> dict[int, str]:
        """The arrangement of each size that slices have, by the number of chips."""
        return _CUBIC if self.torus_axes == 3 else _FLAT

    @property
    def counted_per_chip(self) -> int:
        """How much one chip adds to the number in a slice's name."""
        return _CORES_PER_CHIP if self.slice_counts_cores else 1

    def slice_of(self, devices: int) -> str:
        """The name of the smallest slice with at least so many devices, or of the largest that there is."""
        enough = [chips for chips in self.shapes if chips * self.devices_per_chip >= devices]
        return f"{self.name}-{min(enough or [max(self.shapes)]) * self.counted_per_chip}"


# Chips of a slice and their arrangement, from the Cloud TPU pages' tables of supported configurations.
_FLAT = {1: "1x1", 4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}
_CUBIC = {
    1: "1x1x1", 4: "2x2x1", 8: "2x2x2", 16: "2x2x4", 32: "2x4x4", 64: "4x4x4", 128: "4x4x8", 256: "4x8x8",
    512: "8x8x8", 1024: "8x8x16", 2048: "8x16x16", 4096: "16x16x16",
}  # fmt: skip
# In a name such as v5p-8, the number counts TensorCores, two per chip.
_CORES_PER_CHIP = 2

# More than a host's link can move in one direction (bytes/s): 16 lanes of PCIe 5.0 (PCI-SIG: 32 GT/s per lane), the
# fastest that any host of these generations has.
HOST_LINK_AT_MOST = 64e9

_PCIE_BOOK = "PCIe figure of jax-ml's scaling book (about 15 GB/s per chip)"
_UNPUBLISHED = "not published"
_TEN_LESSONS = "Jouppi et al., Ten Lessons (ISCA 2021)"

CHIPS = {
    "v2": Chip(
        name="v2", names=("TPU v2",), slices=("v2",), peak_flops_per_s=45e12 / 2, hbm_bytes=8 * _GIB,
        hbm_usable_bytes=8 * _GIB, hbm_bytes_per_s=700e9 / 2, clock_hz=700e6,
        clock_source=f"{_TEN_LESSONS}: 700 MHz", ici_bytes_per_s=62e9, host_bytes_per_s=None,
        host_source=_UNPUBLISHED, torus_axes=2, mxu=128, devices_per_chip=2, slice_counts_cores=True, compiled=False,
    ),
    "v3": Chip(
        name="v3", names=("TPU v3",), slices=("v3",), peak_flops_per_s=123e12 / 2, hbm_bytes=16 * _GIB,
        hbm_usable_bytes=16 * _GIB, hbm_bytes_per_s=900e9 / 2, clock_hz=940e6,
        clock_source=f"{_TEN_LESSONS}: 940 MHz", ici_bytes_per_s=82e9, host_bytes_per_s=None,
        host_source=_UNPUBLISHED, torus_axes=2, mxu=128, devices_per_chip=2, slice_counts_cores=True, compiled=False,
    ),
    "v4": Chip(
        name="v4", names=("TPU v4",), slices=("v4",), peak_flops_per_s=275e12, hbm_bytes=32 * _GIB,
        hbm_usable_bytes=int(30.75 * _GIB), hbm_bytes_per_s=1228e9, clock_hz=1.05e9,
        clock_source="Jouppi et al., TPU v4 (ISCA 2023): 1050 MHz", ici_bytes_per_s=50e9,
        host_bytes_per_s=15e9, host_source=_PCIE_BOOK, torus_axes=3, mxu=128, cores_per_device=2, sparse_cores=4,
        slice_counts_cores=True,
    ),
    "v5e": Chip(
        name="v5e", names=("TPU v5 lite", "TPU v5e", "TPU v5litepod"), slices=("v5e", "v5litepod"),
        peak_flops_per_s=197e12, hbm_bytes=16 * _GIB,
        hbm_usable_bytes=int(15.75 * _GIB), hbm_bytes_per_s=819e9, clock_hz=1.5e9,
        clock_source="jax-ml's scaling book, chapter TPUs: 1.5 GHz", ici_bytes_per_s=50e9,
        host_bytes_per_s=15e9, host_source=_PCIE_BOOK, torus_axes=2, mxu=128,
    ),
    "v5p": Chip(
        name="v5p", names=("TPU v5", "TPU v5p"), slices=("v5p",), peak_flops_per_s=459e12, hbm_bytes=int(96 * _GIB),
        hbm_usable_bytes=int(95.74 * _GIB), hbm_bytes_per_s=2765e9, clock_hz=1.75e9,
        clock_source="459 TFLOP/s over 8 MXUs of 128x128 (Cloud TPU v5p page): 1.75 GHz", ici_bytes_per_s=100e9,
        host_bytes_per_s=15e9, host_source=_PCIE_BOOK, torus_axes=3, mxu=128, cores_per_device=2, sparse_cores=4,
        slice_counts_cores=True,
    ),
    "v6e": Chip(
        name="v6e", names=("TPU v6 lite", "TPU v6e"), slices=("v6e", "v6litepod"), peak_flops_per_s=918e12,
        hbm_bytes=32 * _GIB, hbm_usable_bytes=int(31.24 * _GIB), hbm_bytes_per_s=1638e9, clock_hz=1.75e9,
        clock_source="VMEM peaks a v6e states in its trace are whole KiB a cycle at 1.75 GHz, and at that clock the "
        "estimates of its elementwise fusions are within 2 % of their measured times", ici_bytes_per_s=100e9,
        host_bytes_per_s=28.9e9, host_source="measured in a public v6e trace: 28.4 GB/s to the device, 29.4 GB/s back",
        torus_axes=2, mxu=256, sparse_cores=2,
    ),
    "tpu7x": Chip(
        name="tpu7x", names=("TPU7x", "TPU v7x", "TPU v7"), slices=("tpu7x", "v7x"), peak_flops_per_s=2307e12 / 2,
        hbm_bytes=96 * _GIB,
        hbm_usable_bytes=int(94.74 * _GIB), hbm_bytes_per_s=7380e9 / 2, clock_hz=2.5e9,
        clock_source="not public; 2.5 GHz puts a 4096-wide matmul as far above FLOPs over peak as on v4, v5e, v5p "
        "and v6e (9 %)", ici_bytes_per_s=100e9,
        host_bytes_per_s=15e9, host_source=_PCIE_BOOK, torus_axes=3, mxu=256, devices_per_chip=2, sparse_cores=2,
        slice_counts_cores=True,
    ),
}  # fmt: skip


def chip_of(device_type: str) -> Chip | None:
    """The generation that a device plane or a JAX device names (`TPU v6 Lite`), None where it is not known."""
    wanted = _plain(device_type)
    return next((chip for chip in CHIPS.values() if wanted in {_plain(name) for name in chip.names}), None)


def chip_of_slice(prefix: str) -> Chip | None:
    """The generation whose slices are called so (`v5litepod`), None where none is."""
    wanted = prefix.lower()
    return next((chip for chip in CHIPS.values() if wanted in chip.slices), None)


def _plain(name: str) -> str:
    """A name without what spellings differ in: case, spaces and `-`."""
    return name.lower().replace(" ", "").replace("-", "")
