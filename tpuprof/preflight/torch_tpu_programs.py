"""What came of a TorchTPU script's run: its programs as HLO, and what has to be said of its step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tpuprof.preflight.compiler import CompileOptions
from tpuprof.preflight.places import Place
from tpuprof.preflight.program_files import convert_all

_STEP = {
    "eager": "It is eager: TorchTPU runs one program for each op.",
    "fused": "It is eager with TORCH_TPU_DEFER_AND_FUSE: TorchTPU fuses ops up to the next flush.",
    "compiled": "It uses torch.compile: a compiled region is a program forward and one backward, other ops one each.",
}
_LEFT_OUT = (
    "The prediction is the sum of their device times. The host's time to start each of them is not in it, and no gap "
    "between them: a step of many short programs takes longer than predicted"
)


def to_hlo(folder: Path, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The manifest's entries with their programs as HLO protos."""
    convert_all([folder / each["file"] for each in entries], CompileOptions())
    return [{**each, "file": f"{each['file']}.hlo.pb"} for each in entries]


def notes_of(place: Place, manifest: dict[str, Any], runs: int) -> list[str]:
    """How the script ran, and what the prediction of its step leaves out; `runs` is the programs in one step."""
    versions = " and ".join(f"{name} {number}" for name, number in sorted(manifest["versions"].items()))
    found = f" (found by {place.found})" if place.found else ""
    values = "" if manifest["made_up"] else ", so values are real"
    notes = [
        f"{place.python}{found} ran it, with {versions}. Its device work ran on this machine's CPU{values}"
    ]
    if runs > 1:
        notes.append(f"The step is {runs} runs of programs. {_STEP[manifest['mode']]} {_LEFT_OUT}")
    return [f"{each}." for each in notes]
