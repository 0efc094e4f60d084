"""What the Report's terms are called wherever people read them."""

from __future__ import annotations

_USER = "user:"
_PART_TITLES = {
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
    "user:gc": "Python garbage collection",
    "user:overhead": "tpuprof's own work",
}
# What each part of the breakdown is, for readers who have not seen the docs.
_PART_MEANINGS = {
    "compute": "ops that do the model's work",
    "collective_exposed": "communication between chips that nothing hides",
    "offload_exposed": "copies to and from host memory that nothing hides",
    "infeed_outfeed": "infeed, outfeed, host send and receive",
    "other_device": "inside a program, in none of the above",
    "tracing": "device idle while Python builds the next graph",
    "compile": "device idle while XLA compiles",
    "input_wait": "device idle while training waits for the next batch",
    "host_to_device": "device idle while data is copied to it",
    "device_to_host_sync": "device idle while a value is read back",
    "dispatch": "device idle while a program is handed over",
    "unknown": "device idle, reason not told",
    "user:gc": "device idle while Python collects garbage",
    "user:overhead": "device idle while tpuprof itself works at a step's end",
}
_PHASES = {
    "python_and_dispatch": "Python and dispatch",
    "ir_walk_and_hash": "walk over the graph and its hash",
    "scan_retrace": "scan traced anew",
    "autograd": "autograd (backward)",
    "sharding": "sharding",
}
_DIAGNOSES = {
    "ok": "keeps up",
    "no_prefetch": "no prefetch: training makes its own batches",
    "slow_loader": "making a batch takes longer than training on it",
    "shallow_prefetch": "fast enough, but too few batches are made ahead",
}
_CACHE_STATES = {
    "off": "off: every start compiles anew",
    "ok": "on, and used",
    "never_hits": "on, but nothing was ever found in it",
    "never_loads": "on and hit, but no program was loaded from it",
    "cold": "on, and filled for the first time by this run",
}
STATUS_WORDS = {
    "failed": "to fix",
    "passed": "passed",
    "not_applicable": "not applicable",
    "unavailable": "could not be checked",
    "error": "the check itself failed",
}


def part_title(part: str) -> str:
    """The title of a part of the breakdown; the user's annotations go by their own names."""
    return _PART_TITLES.get(part) or part.removeprefix(_USER)


def part_meaning(part: str) -> str:
    """What a part of the breakdown is."""
    return _PART_MEANINGS.get(part, "device idle inside this annotation of yours")


def phase_title(phase: str) -> str:
    """What a phase of tracing is called."""
    return _PHASES.get(phase, phase.replace("_", " "))


def diagnosis_title(diagnosis: str) -> str:
    """What an input pipeline's diagnosis says."""
    return _DIAGNOSES.get(diagnosis, diagnosis.replace("_", " "))


def cache_title(status: str) -> str:
    """What the persistent compilation cache did; empty where that is not known."""
    return _CACHE_STATES.get(status, "")


def bound_title(bound: str) -> str:
    """`tracing` as `Tracing-bound`."""
    return "Unknown" if bound == "unknown" else f"{bound.capitalize()}-bound"
