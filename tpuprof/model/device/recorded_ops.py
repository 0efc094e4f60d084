"""Steps and devices of which a trace has programs and no ops: the buffer of ops was full, or one device's were lost.

A program of a TPU has ops. What runs without any in the trace says nothing of what the device did.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.intervals import Bool, Int64, covered
from tpuprof.model.median import median
from tpuprof.model.steps.phase import NOT_RECORDED, OPS_NOT_RECORDED, LeftOut
from tpuprof.model.steps.table import Steps
from tpuprof.units import counted, listed

# Share of the steps that may have programs without ops at either end for all steps to count (share), and how many steps
# may: less is what a capture begins or ends with. Judgements.
WITHOUT_OPS_TO_SHARE = 0.1
WITHOUT_OPS_TO_STEPS = 1
# Share of the ops of a usual step from which those of a step are all there (share): loops may run a little shorter.
ALL_FROM_SHARE = 0.75
# Devices named one by one (devices).
NAMED = 4


def within_ops(steps: Steps, devices: list[DeviceActivity]) -> Steps:
    """The steps of which the trace has ops, where it has none of those before or after them on any device."""
    able = [each for each in devices if _has_both(each)]
    if not able or len(steps) < 2 or len(able) < len(devices):
        return steps
    kept = [_kept(each, steps) for each in able]
    begin, end = max(kept, key=lambda each: each[1] - each[0])
    if end <= begin or (begin, end) == (0, len(steps)):
        return steps
    text = f"the trace has ops in {end - begin} of {counted(len(steps), 'step')}"
    left_out = LeftOut(OPS_NOT_RECORDED, 0, text)
    note = steps.noted(f"{text}, and programs alone in the others, which are left out")
    return replace(steps.between(begin, end, left_out, left_out), note=note)


def said_of_missing(steps: Steps) -> list[str]:
    """What is missing of steps: those left out for want of their ops, and those without events of their own."""
    found = [each.evidence for each in steps.phases if each.name == OPS_NOT_RECORDED]
    told = [f"{found[0]}: its buffer may have been full. Figures are of those"] if found else []
    return told + list(dict.fromkeys(each.evidence for each in steps.phases if each.name == NOT_RECORDED))


def without_ops(devices: list[DeviceActivity], steps: Steps) -> list[DeviceActivity]:
    """Devices of which the trace has programs in the steps and lacks ops of them, where it has those of others."""
    if any(each.type == "CPU" or each.is_gpu for each in devices):
        return []
    lacking = [each for each in devices if len(each.programs.start) and _lacks(each, steps)]
    return lacking if len(lacking) < len(devices) else []


def said_of_lacking(devices: list[DeviceActivity]) -> str:
    """What is said of those, which figures are not of."""
    named = listed([each.name for each in devices], NAMED, "more device")
    return f"the trace lacks ops of {named}, which ran programs: figures are of the other devices"


def _has_both(device: DeviceActivity) -> bool:
    both = len(device.programs.start) and len(device.op_events.start)
    return bool(both) and device.type != "CPU" and not device.is_gpu


def _lacks(device: DeviceActivity, steps: Steps) -> bool:
    if not covered(device.executing, steps.start, steps.end).any():
        return False
    if not len(device.op_events.start):
        return True
    begin, end = _kept(device, steps)
    return (begin, end) != (0, len(steps))


def _kept(device: DeviceActivity, steps: Steps) -> tuple[int, int]:
    """The rows of steps from the first to the last of which the trace has ops; all where it lacks few, or has none."""
    starts = device.op_events.start
    whole = 0, len(steps)
    if int(starts.min()) < steps.end[0] and int(starts.max()) >= steps.start[-1]:
        return whole
    ops = _begun(np.sort(starts), steps)
    runs: Bool = covered(device.executing, steps.start, steps.end) > 0
    if not ops.any():
        return whole
    usual = median(ops[ops > 0])
    at = np.flatnonzero((ops >= ALL_FROM_SHARE * usual) | ~runs)
    if not len(at):
        return whole
    begin, end = int(at[0]), int(at[-1]) + 1
    outside = begin + len(steps) - end
    few = outside <= max(WITHOUT_OPS_TO_SHARE * len(steps), WITHOUT_OPS_TO_STEPS)
    return whole if few else (begin, end)


def _begun(starts: Int64, steps: Steps) -> Int64:
    """How many of the times are in each step."""
    found: Int64 = np.searchsorted(starts, steps.end) - np.searchsorted(starts, steps.start)
    return found
