"""Looks at a capture right after it was made, so that it cannot fail silently."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpuprof.errors import Code, TpuprofError
from tpuprof.json_notes import read_json
from tpuprof.run_folder import PROFILE_SUFFIX, PROFILES, RUN_INFO, profile_name
from tpuprof.units import GIGA

# XSpace is a protobuf message, and protobuf writers give up at 2 GiB: what is near it lost something.
TOO_LARGE_BYTES = 2_000_000_000


@dataclass(frozen=True)
class Finding:
    """One thing wrong with a capture. A fatal one leaves nothing to analyze."""

    error: TpuprofError
    fatal: bool


def validate(run: Path, name: str, own: set[str] | None = None) -> list[Finding]:
    """What is wrong with the capture `name` in a run folder, the fatal first; empty if all is well.

    Of a host of a pod, `own` are the labels of its profiles: it looks at those alone.
    """
    files = profiles(run, name, own)
    findings = [finding for path in files for finding in _check_file(path)]
    if own is None:
        findings += _missing_processes(files, _read_info(run))
    return sorted(findings, key=lambda finding: not finding.fatal)


def profiles(run: Path, name: str, own: set[str] | None = None) -> list[Path]:
    """The profiles of the capture `name`, none where nothing was captured; of a host of a pod, its own."""
    folder = run / PROFILES / name
    found = sorted(folder.glob(profile_name("*"))) if folder.is_dir() else []
    return [path for path in found if own is None or path.name.removesuffix(PROFILE_SUFFIX) in own]


def _read_info(run: Path) -> dict[str, Any]:
    try:
        info = read_json(run / RUN_INFO)
    except (OSError, ValueError):
        return {}
    return info if isinstance(info, dict) else {}


def _check_file(path: Path) -> list[Finding]:
    size = path.stat().st_size
    if size >= TOO_LARGE_BYTES:
        text = f"{path}: the profile has {size / GIGA:.1f} GB, and the profiler loses data near 2 GB."
        return [
            Finding(
                TpuprofError(Code.CAPTURE_TOO_LARGE, text, "Capture fewer steps with --steps."), fatal=False
            )
        ]
    from tpuprof.model.host_run import read_host_run

    try:
        host = read_host_run(path.name.removesuffix(PROFILE_SUFFIX), path)
    except TpuprofError as error:
        return [Finding(error, fatal=True)]
    findings = []
    if not len(host.steps):
        text = f"{path}: no training step is in the profile."
        hint = "Capture longer, or mark steps with tpuprof.step(i)."
        findings.append(Finding(TpuprofError(Code.CAPTURE_NO_STEPS, text, hint), fatal=False))
    if not host.devices and host.framework != "torch_tpu":
        text = f"{path}: no device activity is in the profile."
        hint = (
            "Check that the model and its batches are on the device, and that no other process profiles it."
        )
        if host.framework == "torch_xla" and host.optimizer_steps and not host.graph_cuts:
            hint = (
                "No graph ran: check that the model and its batches are on the device, and that something cuts the "
                "graph, such as torch_xla.sync() after optimizer.step()."
            )
        findings.append(Finding(TpuprofError(Code.CAPTURE_NO_DEVICE, text, hint), fatal=False))
    dropped = [note for note in host.warnings if "drop" in note.lower()]
    hint = "Capture fewer steps with --steps."
    findings += [
        Finding(TpuprofError(Code.CAPTURE_DROPPED, f"{path}: {note}.", hint), fatal=False) for note in dropped
    ]
    return findings


def _missing_processes(files: list[Path], info: dict[str, Any]) -> list[Finding]:
    expected = info.get("process_count")
    if not isinstance(expected, int) or len(files) >= expected:
        return []
    text = f"{files[0].parent}: {len(files)} of {expected} processes wrote a profile."
    hint = "Look for their errors above; each process must reach the captured steps."
    return [Finding(TpuprofError(Code.CAPTURE_MISSING_HOST, text, hint), fatal=False)]


def offload_on_cpu() -> TpuprofError:
    """The error for a program that offloads to host memory on the CPU device."""
    return TpuprofError(
        Code.CAPTURE_OFFLOAD_ON_CPU,
        "The program moves tensors to host memory (place_to_host), which torch_xla cannot run on PJRT_DEVICE=CPU.",
        "Capture it on a TPU, or leave offloading out on the CPU.",
    )
