"""What the model's terms are called on screen, and how values that cannot be told are shown."""

from __future__ import annotations

import os

from tpuprof.model.attribution import USER_PREFIX
from tpuprof.report.content import PART_MEANINGS

UNAVAILABLE = "unavailable"

_PARTS = {
    "compute": "Compute",
    "collective_exposed": "Exposed collectives",
    "offload_exposed": "Exposed host offload",
    "infeed_outfeed": "Infeed and outfeed",
    "other_device": "Other device work",
    "tracing": "Exposed tracing",
    "compile": "Compiling",
    "input_wait": "Input wait",
    "host_to_device": "Host-to-device copies",
    "device_to_host_sync": "Device-to-host reads",
    "dispatch": "Dispatch",
    "unknown": "Idle, not explained",
    # what lanes of the timeline hold besides
    "step": "Step",
    "program": "Program",
    "loop or call": "Loop or call",
    "host event": "Host event",
    "annotation": "Annotation",
}
_PHASES = {
    "python_and_dispatch": "Python and dispatch",
    "autograd": "Autograd (backward)",
    "ir_walk_and_hash": "Walk over the graph and its hash",
}
_DIAGNOSES = {
    "ok": "keeps up",
    "no_prefetch": "no prefetch: training makes its own batches",
    "slow_loader": "making a batch takes longer than training on it",
    "shallow_prefetch": "fast enough, but too few batches are made ahead",
}
_BOUNDS = {
    "tracing": "Tracing-bound",
    "device": "Device-bound",
    "compile": "Compile-bound",
    "input": "Input-bound",
    "sync": "Sync-bound",
    "offload": "Offload-bound",
    "collective": "Collective-bound",
    "dispatch": "Dispatch-bound",
    "unknown": "Unknown",
}
STATUS_TITLES = {
    "failed": "To fix",
    "passed": "Passed",
    "not_applicable": "Not applicable",
    "unavailable": "Could not be checked",
    "error": "The check itself failed",
}


def part_title(part: str) -> str:
    """The title of a part of the breakdown; the user's annotations go by their own names."""
    return _PARTS.get(part) or part.removeprefix(USER_PREFIX)


def part_definition(part: str) -> str:
    """What a part is, in words for those who meet the term here for the first time."""
    meaning = PART_MEANINGS.get(part, "device idle inside this annotation of yours")
    return f"{meaning[0].upper()}{meaning[1:]}."


def phase_title(phase: str) -> str:
    """The title of a phase of tracing."""
    return _PHASES.get(phase, phase.replace("_", " "))


def diagnosis_title(diagnosis: str) -> str:
    """What an input pipeline's diagnosis says."""
    return _DIAGNOSES.get(diagnosis, diagnosis.replace("_", " "))


def bound_title(bound: str) -> str:
    """`tracing` as `Tracing-bound`."""
    return _BOUNDS.get(bound, bound)


def reason(text: str) -> str:
    """Why a value cannot be told, without the word that stands beside it anyway."""
    return text.removeprefix(f"{UNAVAILABLE}: ")


def plain(text: str) -> str:
    """Text for plotly, whose labels and hovers read some HTML and templates: both made harmless."""
    for old, new in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("%{", "% {")):
        text = text.replace(old, new)
    return text


def run_labels(names: list[str]) -> dict[str, str]:
    """What runs are called on screen: their paths without what all have in common, by name."""
    paths = [name for name in names if os.path.isabs(name)]
    folders = [os.path.dirname(path) for path in paths]
    cut = len(os.path.commonpath(folders).rstrip("/")) + 1 if folders else 0
    return {name: name[cut:] if name in paths else name for name in names}


def short(text: str, most: int = 80) -> str:
    """A text cut in its middle to `most` characters."""
    if len(text) <= most:
        return text
    head = (most - 1) * 2 // 3
    return f"{text[:head]}…{text[-(most - 1 - head) :]}"
