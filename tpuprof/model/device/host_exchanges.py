"""What a device's `send` and `recv` with the host are for: collectives across slices, or Python callbacks.

Between slices of TPUs there are no chip-to-chip links. A collective across them goes through the hosts and the data
centre network (DCN): the compiler makes `send` and `recv` host transfers of it, which the MegaScale runtime serves
(https://openxla.org/xprof/megascale_stats). Where the same ops serve a JAX callback, the program waits for Python.
The profiler calls the category of both `host send` and `host recv`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tpuprof.model.device.activity import DeviceActivity, OpNames
from tpuprof.model.device.op_kind import MEGASCALE, OpKind, with_the_host

# Beginning of what the MegaScale runtime calls its events on host threads.
RUNTIME_EVENTS = "MegaScale:"
_IN_PROGRAM = MEGASCALE.encode()


def with_purposes(
    devices: list[DeviceActivity],
    event_names: Iterable[str],
    protos: Mapping[str, bytes],
    *,
    calls_python: bool,
) -> list[DeviceActivity]:
    """The devices with such ops as collectives across slices, or as Python callbacks.

    Which, the op itself says (read in `tpu.py`), its program in `protos`, else events of the runtime on the host. A
    framework that has no such callbacks (`calls_python`) uses them across slices alone. Where nothing says, they count
    as callbacks, and are `unclear`.
    """
    if not any(_open(ops) for device in devices for ops in (device.ops, device.async_ops)):
        return devices
    across = not calls_python or any(name.startswith(RUNTIME_EVENTS) for name in event_names)
    found: dict[int, OpNames] = {}
    for ops in (ops for device in devices for ops in (device.ops, device.async_ops)):
        if id(ops) not in found:
            found[id(ops)] = _named(ops, protos, across)
    return [replace(each, ops=found[id(each.ops)], async_ops=found[id(each.async_ops)]) for each in devices]


def _open(ops: OpNames) -> list[int]:
    """The rows whose purpose is open."""
    waits = (ops.kind == OpKind.INFEED_OUTFEED).nonzero()[0].tolist()
    return [row for row in waits if with_the_host(ops.category[row])]


def _named(ops: OpNames, programs: Mapping[str, bytes], across: bool) -> OpNames:
    kind, through_hosts, unclear = ops.kind.copy(), set(ops.across), set()
    for row in _open(ops):
        program = programs.get(ops.program[row])
        if _IN_PROGRAM in program if program is not None else across:
            kind[row] = OpKind.COLLECTIVE
            through_hosts.add(row)
        else:
            kind[row] = OpKind.HOST_CALLBACK
            if program is None:
                unclear.add(row)
    return replace(ops, kind=kind, across=frozenset(through_hosts), unclear=frozenset(unclear))
