"""TorchTPU on XLA's CPU plugin: no device plane, but the device is threads of the process, whose time was counted."""

from __future__ import annotations

from typing import Any

# What run.json calls that plugin.
CPU_PLUGIN = "cpu"


def on_cpu_plugin(info: dict[str, Any]) -> bool:
    """Whether run.json names that plugin."""
    device = info.get("device")
    return isinstance(device, dict) and device.get("plugin") == CPU_PLUGIN


def native_seconds(info: dict[str, Any]) -> float | None:
    """How long the device worked at most while the capture recorded (s); None where it is no CPU, or was not counted.

    It works on threads that run no Python. What those worked, or waited for a CPU that other processes had, holds its
    work, and that of the threads which hand programs to it.
    """
    capture = info.get("capture")
    if not on_cpu_plugin(info) or not isinstance(capture, dict):
        return None
    found = capture.get("native_seconds")
    return float(found) if isinstance(found, int | float) and found > 0 else None
