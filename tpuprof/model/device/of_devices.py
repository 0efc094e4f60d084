"""What is read of a host's devices and of their programs, once steps are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuprof.model.compile.hlo_metadata import RECOMPUTED
from tpuprof.model.compile.recurrence import History
from tpuprof.model.device.activity import DeviceActivity, are_several
from tpuprof.model.device.collective_role import collective_roles
from tpuprof.model.device.fusions import read_fusions
from tpuprof.model.device.loops import find_loops
from tpuprof.model.device.memory import device_memory
from tpuprof.model.device.program_ops import programs_in_steps
from tpuprof.model.device.unrolled import Repetition, find_repetition, main_program
from tpuprof.model.host.vocabulary import Vocabulary
from tpuprof.model.steps import Steps

if TYPE_CHECKING:
    from tpuprof.model.device.recomputed import Recomputed
    from tpuprof.model.device.unused_gradients import UnusedWork


def of_devices(
    devices: list[DeviceActivity],
    steps: Steps,
    protos: dict[str, bytes],
    parameter_names: tuple[str, ...],
    history: History,
) -> dict[str, Any]:
    """Fields of a host that are read from what its devices did, and from their programs."""
    ran = programs_in_steps(devices, steps)
    in_steps = {name: protos[name] for name in protos.keys() & ran.keys()}
    found: dict[str, Any] = {
        "loops": find_loops(devices[0], steps) if devices else [],
        "repetition": find_repetition(devices[0], steps, parameter_names, protos) if devices else None,
        "memory": device_memory(protos, devices[0].type if devices else "", ran),
        "unused": _unused(in_steps, history),
        "recomputed": _recomputed(in_steps, history),
        "part_sorts": _part_sorts(devices, in_steps),
        "collective_roles": collective_roles(devices, protos, parameter_names),
    }
    if devices and protos:
        found |= _of_main_program(main_program(devices[0], steps), devices, protos, found["repetition"])
    read_fusions(devices, protos)
    if protos:
        from tpuprof.model.device.doubles import note_doubles
        from tpuprof.model.device.same_work import note_same_work

        note_doubles(devices, protos)
        note_same_work(devices, protos)
    return found


def _of_main_program(
    program: str, devices: list[DeviceActivity], protos: dict[str, bytes], repetition: Repetition | None
) -> dict[str, Any]:
    """What the program of the steps tells where nothing repeats in it, and where several devices run it."""
    found: dict[str, Any] = {}
    if repetition is None:
        from tpuprof.model.device.lines_of_program import lines_of_program

        found["program_lines"] = lines_of_program(program, protos)
    if are_several(devices):
        from tpuprof.model.device.alike_inputs import alike_inputs

        found["alike_inputs"] = alike_inputs(protos.get(program, b""))
    return found


def _unused(protos: dict[str, bytes], history: History) -> UnusedWork | None:
    if not protos or not history.unused_gradients:
        return None
    from tpuprof.model.device.unused_gradients import unused_work

    return unused_work(protos, history.unused_gradients)


def _recomputed(protos: dict[str, bytes], history: History) -> Recomputed | None:
    """What programs compute again; None where nothing says that they may."""
    mark = RECOMPUTED.encode()
    marked = {name: data for name, data in protos.items() if history.checkpoints or mark in data}
    if not marked:
        return None
    from tpuprof.model.device.recomputed import recomputed

    return recomputed(marked)


def _part_sorts(devices: list[DeviceActivity], protos: dict[str, bytes]) -> frozenset[tuple[str, str]]:
    """Sorts of which the program uses a part: most programs sort nothing."""
    if not devices or not [name for name in devices[0].ops.name if name[:4] == "sort"]:
        return frozenset()
    from tpuprof.model.device.sort_uses import sorts_for_a_part

    return sorts_for_a_part(devices[0], protos)


def twice_of(
    words: Vocabulary, devices: list[DeviceActivity], steps: Steps, protos: dict[str, bytes]
) -> list[str]:
    """Notes on programs of JAX whose work a larger program of the step runs as well."""
    if words.framework != "jax" or not protos:
        return []
    from tpuprof.model.device.computed_twice import computed_twice

    return computed_twice(devices, steps, protos)
