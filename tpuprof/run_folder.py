"""What a run folder holds: its paths, the names of its files, and the schemas of the notes in it.

Capture, preflight, decode, watch, prove, bundles and the dashboard read and write run folders by these names alone; the
page docs/run-folder.md says what each file holds. A folder that another tool made has the profiles, and no notes.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

# Where XProf, TensorBoard and JAX look for profiles: a folder for each session, a file in it for each host.
PLUGINS = "plugins"
PROFILES = Path(PLUGINS) / "profile"
PROFILE_SUFFIX = ".xplane.pb"
PROFILE_SUFFIXES = (PROFILE_SUFFIX, f"{PROFILE_SUFFIX}.gz")
# The profiler's Chrome export of a profile.
EXPORT_SUFFIXES = (".trace.json", ".trace.json.gz")

# tpuprof's own notes of a capture or a prediction.
NOTES = Path("tpuprof")
RUN_INFO = NOTES / "run.json"
RUN_SCHEMA = "tpuprof.run/1"
# The comparison that `tpuprof preflight --json` prints, put there by the user.
PREFLIGHT = NOTES / "preflight.json"
PREFLIGHT_SCHEMA = "tpuprof.preflight/1"
# Steps that a capture waits for at least, where it is asked for no other number (steps). A command that is to capture
# the same part of training again states another one.
USUAL_WARMUP = 3
# Steps of a capture of many: what a rate of rare events needs (steps).
MANY_STEPS = 50
# Classes of step lengths per doubling in the notes on what came after a capture (classes): class c is of `2 ** (c / 4)`
# microseconds, and a step is within a tenth of its class's length.
CLASSES_PER_DOUBLING = 4
# What people noted on spans, by the dashboard.
SPAN_NOTES = NOTES / "span_notes.json"
SPAN_NOTES_SCHEMA = "tpuprof.span-notes/1"
# Compiled graphs, one file each.
GRAPHS = NOTES / "graphs"
GRAPH_SUFFIX = ".hlo.pb"
# Logs of TORCH_TRACE that TorchTPU wrote while it was captured.
TORCH_TRACE = NOTES / "torch_trace"
TORCH_TRACE_LOGS = "dedicated_log_torch_trace_*.log"
# Where the hosts of a pod agree on a capture.
POD = NOTES / "pod"

# What of a name in a list of hosts (`user@host:port`) is left out of names of files.
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.-]+")
# Notes of one process, beside the profile with that label.
_NOTE = re.compile(
    r"(?P<kind>telemetry|after|metrics|pt_xla_debug)\.(?P<label>.+)\.(?P<rank>[^.]*)\.(?P<suffix>jsonl|json|txt)"
)

# What came of each fix that was tried, one file each.
PROOFS = Path("prove")
PROOF_SCHEMA = "tpuprof.prove/1"

# What a watched job writes: the ledger of each process, how it does now, and what was captured of anomalies.
LEDGERS = Path("ledgers")
LEDGER_SCHEMA = "tpuprof.ledger/1"
STATUS = Path("status")
STATUS_SCHEMA = "tpuprof.status/1"
CAPTURES = Path("captures")
VERDICT = "verdict.json"
ANOMALY_SCHEMA = "tpuprof.anomaly/1"

# A saved Report: a file in a bundle, and in the folder of an anomaly. The schema's version is `report.schema.SCHEMA`'s.
REPORT = "report.json"
REPORT_SCHEMA_NAME = "tpuprof.report"


def profile_name(label: str) -> str:
    """The file of a process's profile; `label` is what XProf takes for the host."""
    return f"{label}{PROFILE_SUFFIX}"


def run_info_name(host: object, process_id: int) -> str:
    """The description of a run by a process that another has already described in `run.json`."""
    return f"{RUN_INFO.stem}.{host}.{process_id}{RUN_INFO.suffix}"


def labels(label: str, also: str) -> Iterator[str]:
    """Names for a profile, one after the other until one is free: hosts may have one name, and a host many processes.

    `also` is what else tells it from others: its name in a list of hosts, or its process.
    """
    yield label
    first = f"{label}-{_NOT_IN_NAMES.sub('_', also)}" if also else label
    if also:
        yield first
    yield from (f"{first}-{number}" for number in count(2))


def renamed_note(name: str, label: str, new: str) -> str:
    """The name of a note beside a profile, after that was given another label."""
    found = _NOTE.fullmatch(name)
    if found is None or found["label"] != label:
        return name
    return f"{found['kind']}.{new}.{found['rank']}.{found['suffix']}"


def telemetry_name(label: str, rank: int | str) -> str:
    """The file of what a process noted of each step."""
    return f"telemetry.{label}.{rank}.jsonl"


def aftermath_name(label: str) -> str:
    """The file of what a process counted after the captured steps; `label` is the profile's, with the rank."""
    return f"after.{label}.json"


def metrics_name(label: str) -> str:
    """The file of torch_xla's metrics report at the capture's end."""
    return f"metrics.{label}.txt"


def debug_name(label: str) -> str:
    """The file of what PT_XLA_DEBUG wrote."""
    return f"pt_xla_debug.{label}.txt"


def run_infos(run: Path) -> list[Path]:
    """Descriptions of a run by its processes, `run.json` among them."""
    return sorted((run / NOTES).glob(f"{RUN_INFO.stem}*{RUN_INFO.suffix}"))


def telemetry_files(run: Path, label: str = "*") -> list[Path]:
    """What processes noted of their steps: of one profile's, or of all."""
    return sorted((run / NOTES).glob(telemetry_name(_literally(label), "*")))


def aftermath_files(run: Path, label: str) -> list[Path]:
    """What the processes of a profile counted after the captured steps."""
    return sorted((run / NOTES).glob(aftermath_name(f"{_literally(label)}.*")))


def texts(run: Path) -> list[Path]:
    """Text that torch_xla wrote, as the capture kept it."""
    return sorted((run / NOTES).glob("*.txt"))


def _literally(label: str) -> str:
    return label if label == "*" else glob.escape(label)
