"""The kinds of time that a job's wall time is split into: those of ml-goodput-measurement, and productive steps."""

from __future__ import annotations

from tpuprof.records import record

PRODUCTIVE = "productive"
INITIALIZATION = "tpu_initialization"
PREPARATION = "training_prep"
STARTUP = "program_startup"
DATA = "data_loading_sync"
SAVE = "unproductive_checkpoint_save_time"
RESTORE = "unproductive_checkpoint_restore_time"
WASTED = "wasted_progress_from_disruption"
RECOVERY = "infrastructure_recovery_from_disruption"
CUSTOM = "custom_badput_events"
OTHER = "other"
# Names of custom events that we make ourselves.
STALL = "stall"


@record(frozen=True)
class TimeKind:
    """One kind. `name` is that of ml-goodput-measurement's `BadputType`, in lower case; `title` is for people."""

    name: str
    title: str
    meaning: str


KINDS = (
    TimeKind(PRODUCTIVE, "productive steps", "steps whose result was kept, without the kinds below"),
    TimeKind(
        INITIALIZATION, "initialization", "from the start of the process until the device runtime was up"
    ),
    TimeKind(PREPARATION, "training preparation", "from then until the first step"),
    TimeKind(DATA, "data loading", "steps waited for their input"),
    TimeKind(STARTUP, "compilation", "programs were compiled, at the start or later"),
    TimeKind(SAVE, "checkpoint save", "training waited for a checkpoint to be written"),
    TimeKind(RESTORE, "checkpoint restore", "a checkpoint was read"),
    TimeKind(
        WASTED, "wasted progress", "steps that a later attempt did again, and the step that a crash cut off"
    ),
    TimeKind(
        RECOVERY, "idle between attempts", "no process ran: from the last sign of life to the next start"
    ),
    TimeKind(
        CUSTOM,
        "stalls and marked phases",
        "a step took many times the median; phases that the program marked",
    ),
    TimeKind(OTHER, "other", "between these: time before, between and after steps that nothing explains"),
)
# Parts of productive steps, by the column of the ledger that measures them.
PARTS = {
    "tracing_us": "tracing",
    "cut_us": "graph cuts",
    "read_us": "reads from the device",
    "wait_us": "waits for the device",
}
