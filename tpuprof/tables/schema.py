"""The tables of a run, their columns, types and units: what exports, queries and docs/tables.md follow.

Schema `tpuprof.tables/1`: tables and columns are added, never renamed or removed. A column's unit is the end of its
name. Text columns hold text as the trace has it.
"""

from __future__ import annotations

from tpuprof.records import record

SCHEMA = "tpuprof.tables/1"
TEXT, INTEGER, NUMBER, FLAG = "text", "int64", "float64", "bool"


@record(frozen=True)
class Column:
    """One column: `kind` is text, int64, float64 or bool; `nullable` where a value can be unknown."""

    name: str
    kind: str
    meaning: str
    nullable: bool = False


@record(frozen=True)
class Table:
    """One table. `of` says what one row is."""

    name: str
    of: str
    columns: tuple[Column, ...]

    @property
    def column_names(self) -> list[str]:
        """Names of the columns, in order."""
        return [each.name for each in self.columns]


_HOST = Column("host", TEXT, "the host, or the process where a host has several")
_DEVICE = Column("device", TEXT, "the device's plane in the trace")
_STEP = Column("step", INTEGER, "number of the step that it begins in, null outside steps", nullable=True)
_START = Column("start_ps", INTEGER, "begin, from the host's `origin_ns`")
_DURATION = Column("duration_ps", INTEGER, "wall time")
_PROGRAM = Column(
    "program", TEXT, "`graph(fingerprint)`, null where the trace does not name it", nullable=True
)
_SOURCE = Column("source", TEXT, "`file:line`, null where unknown", nullable=True)
_RULE = Column("rule", TEXT, "id of the rule")


TABLES: tuple[Table, ...] = (
    Table(
        "hosts",
        "one host, or process",
        (
            _HOST,
            Column("file", TEXT, "the profile"),
            Column("size_bytes", INTEGER, "size of the profile"),
            Column(
                "origin_ns", INTEGER, "time of `start_ps` 0, since the epoch where the profiler states it"
            ),
            Column("framework", TEXT, "the framework whose events it has"),
            Column("devices_count", INTEGER, "devices that its events are of"),
            Column("steps_count", INTEGER, "steps in `steps`"),
            Column("step_source", TEXT, "what step boundaries were read from"),
            Column("step_confidence", TEXT, "high, medium or low"),
        ),
    ),
    Table(
        "steps",
        "one step of one host",
        (
            _HOST,
            Column("step", INTEGER, "number of the step, as the program numbers it"),
            _START,
            _DURATION,
            Column("busy_ps", INTEGER, "time in which the device was in a program, mean over devices"),
            Column("host_work_ps", INTEGER, "time in which the training thread worked rather than waited"),
            Column("device_wait_ps", INTEGER, "time in which the training thread waited inside the runtime"),
            Column("tracing_hidden_ps", INTEGER, "tracing behind device work"),
            Column("host_reads_count", INTEGER, "reads of the device's values that begin in the step"),
        ),
    ),
    Table(
        "parts",
        "one part of one step; the parts of a step sum to its wall time",
        (
            _HOST,
            Column("step", INTEGER, "number of the step"),
            Column("part", TEXT, "name of the part; parts of no time are left out"),
            Column("duration_ps", INTEGER, "time of the part, mean over devices"),
        ),
    ),
    Table(
        "ops",
        "one op of one program on one device, summed over its executions",
        (
            _HOST,
            _DEVICE,
            Column("op_id", INTEGER, "joins `op_events` of the same host, device and line"),
            Column("line", TEXT, "`core` for ops on the core, `async` for copies and collectives beside it"),
            _PROGRAM,
            Column("op", TEXT, "the HLO op's name"),
            Column(
                "kind",
                TEXT,
                "compute, infeed_outfeed, host_callback, offload, collective, container, async_wait",
            ),
            Column("category", TEXT, "XLA's category, null where unknown", nullable=True),
            Column("occurrences_count", INTEGER, "executions in the capture"),
            Column("total_ps", INTEGER, "time of all executions"),
            Column("self_ps", INTEGER, "the same without ops inside it"),
            Column(
                "clock_ps",
                INTEGER,
                "time of all by the device's own clock, null if not stated",
                nullable=True,
            ),
            Column("occurrences_in_steps_count", INTEGER, "executions that begin in steps"),
            Column("self_in_steps_ps", INTEGER, "self time of those"),
            Column("flops_count", INTEGER, "FLOPs of one execution, null where not stated", nullable=True),
            Column("accessed_bytes", INTEGER, "bytes that one execution accesses", nullable=True),
            Column("hbm_bytes", INTEGER, "bytes of those that go to or from HBM", nullable=True),
            _SOURCE,
            Column("scope", TEXT, "the framework's path of the op, null where unknown", nullable=True),
            Column("hlo", TEXT, "the op's HLO line, null where the trace has none", nullable=True),
        ),
    ),
    Table(
        "op_events",
        "one execution of one op",
        (
            _HOST,
            _DEVICE,
            Column("line", TEXT, "`core` or `async`, as in `ops`"),
            Column("op_id", INTEGER, "row of `ops` with the same host, device and line"),
            _PROGRAM,
            Column("op", TEXT, "the HLO op's name"),
            Column("kind", TEXT, "as in `ops`"),
            _STEP,
            _START,
            _DURATION,
            Column("self_ps", INTEGER, "wall time without ops inside it"),
        ),
    ),
    Table(
        "programs",
        "one execution of one program",
        (_HOST, _DEVICE, _PROGRAM, _STEP, _START, _DURATION),
    ),
    Table(
        "host_events",
        "one event of one thread of a host",
        (
            _HOST,
            Column("thread", TEXT, "name of the thread"),
            Column("thread_id", INTEGER, "the thread's id in the trace"),
            Column("event", TEXT, "name of the event, null where the profile has none", nullable=True),
            _STEP,
            _START,
            _DURATION,
            Column("self_ps", INTEGER, "wall time without events inside it"),
        ),
    ),
    Table(
        "hand_overs",
        "work that goes from one event to another, across threads or from the host to a device",
        (
            _HOST,
            Column("from_thread", TEXT, "thread of the event that hands it over"),
            Column("from_event", TEXT, "name of that event", nullable=True),
            Column("to_plane", TEXT, "the plane of the event that takes it: the host's, or a device's"),
            Column("to_thread", TEXT, "thread or queue of that event"),
            Column("to_event", TEXT, "name of that event", nullable=True),
            _STEP,
            Column("start_ps", INTEGER, "begin of the event that hands it over, from the host's `origin_ns`"),
            Column("to_start_ps", INTEGER, "begin of the event that takes it"),
            Column("to_duration_ps", INTEGER, "wall time of that event, 0 where it only marks a moment"),
        ),
    ),
    Table(
        "host_reads",
        "device-to-host reads of one kind from one line, inside steps",
        (
            _HOST,
            Column("call", TEXT, "the method that reads"),
            _SOURCE,
            Column("occurrences_count", INTEGER, "reads inside steps"),
            Column("blocked_ps", INTEGER, "time of the training thread in them"),
        ),
    ),
    Table(
        "compiles",
        "one compile",
        (
            _HOST,
            _STEP,
            Column("program", TEXT, "what it made, null where that did not run", nullable=True),
            Column("graph_hash", TEXT, "hash of the graph, null where unknown", nullable=True),
            _START,
            _DURATION,
            Column("novelty", TEXT, "`new`, or `again` for a graph compiled before in the capture"),
            Column("cause", TEXT, "first, shape, dtype, constant, sharding, graph or unknown"),
            Column("cause_detail", TEXT, "the cause in words"),
            _SOURCE,
            Column("frames", TEXT, "Python frames, the user's first, one per line", nullable=True),
        ),
    ),
    Table(
        "transfers",
        "one copy or collective of one program on one device, summed over its executions in steps",
        (
            _HOST,
            _DEVICE,
            Column("group", TEXT, "`offload` for copies to and from host memory, or `collective`"),
            Column("kind", TEXT, "the direction of a copy, or the kind of collective"),
            Column("op", TEXT, "the op that begins it"),
            _PROGRAM,
            Column("moved_bytes", INTEGER, "bytes of one execution, null where not stated", nullable=True),
            Column("occurrences_count", INTEGER, "executions in steps"),
            Column("rate_bytes_per_s", NUMBER, "bytes over time in flight", nullable=True),
            Column("exposed_ps", INTEGER, "time that the device spent on this alone"),
            Column("hidden_ps", INTEGER, "time in flight behind compute", nullable=True),
            Column("waiting_ps", INTEGER, "time in flight beside waits for other transfers", nullable=True),
            Column("tensor", TEXT, "the operand, null where unknown", nullable=True),
            _SOURCE,
            Column("note", TEXT, "why a figure is null", nullable=True),
        ),
    ),
    Table(
        "memory",
        "one event of the runtime's allocator",
        (
            _HOST,
            Column("device_index", INTEGER, "the device's number on its host"),
            _STEP,
            _START,
            Column(
                "in_use_bytes", INTEGER, "bytes held after it, temporaries of running programs not included"
            ),
            Column("free_bytes", INTEGER, "bytes free after it, null where not stated", nullable=True),
        ),
    ),
    Table(
        "program_memory",
        "one moment of the program that needs most memory, as the compiler assigned its memory",
        (
            _HOST,
            _PROGRAM,
            Column("moment", INTEGER, "counts the compiler's allocations and frees"),
            Column("op", TEXT, "the op at which this is in use"),
            Column("in_use_bytes", INTEGER, "bytes in use"),
        ),
    ),
    Table(
        "buffers",
        "one of the largest buffers at the peak of that program",
        (
            _HOST,
            _PROGRAM,
            Column("op", TEXT, "the op that defines it"),
            Column("size_bytes", INTEGER, "size as laid out"),
            Column("shape", TEXT, "shape with element type"),
            Column("kind", TEXT, "argument, output, constant or temporary"),
            _SOURCE,
        ),
    ),
    Table(
        "telemetry",
        "one step that the process noted, captured or not",
        (
            _HOST,
            Column("step", INTEGER, "number of the step"),
            Column("captured", FLAG, "whether the profiler recorded it"),
            Column("wall_ns", INTEGER, "wall time by the process's own clock"),
            Column("compiles_count", INTEGER, "graphs compiled in it"),
            Column("compile_s", NUMBER, "time of those compiles"),
            Column(
                "samples_count", NUMBER, "samples, null where the program does not state them", nullable=True
            ),
        ),
    ),
    Table(
        "counters",
        "one counter of torch_xla in one step that the process noted",
        (
            _HOST,
            Column("step", INTEGER, "number of the step"),
            Column("captured", FLAG, "whether the profiler recorded it"),
            Column("kind", TEXT, "`counter`, or `metric` for the samples that a metric gained"),
            Column("name", TEXT, "as torch_xla calls it"),
            Column("increase_count", INTEGER, "increase in the step"),
        ),
    ),
    Table(
        "findings",
        "what one rule says",
        (
            _RULE,
            Column("category", TEXT, "the rule's category"),
            Column("status", TEXT, "failed, passed, not_applicable, unavailable or error"),
            Column("title", TEXT, "the finding in a line"),
            Column("why", TEXT, "why it matters"),
            Column("severity_share", NUMBER, "share of step time at stake"),
            Column("saving_low_ms", NUMBER, "least that a fix saves, null where not priced", nullable=True),
            Column("saving_high_ms", NUMBER, "most that a fix saves", nullable=True),
            Column("saving_per", TEXT, "what it is saved of: step, start or capture", nullable=True),
            Column("saving_method", TEXT, "measured, counterfactual or bound", nullable=True),
            Column("confidence", TEXT, "high, medium or low"),
            Column("reason", TEXT, "why it is not decided or not priced", nullable=True),
            Column("fix", TEXT, "what to do", nullable=True),
        ),
    ),
    Table(
        "span_notes",
        "what somebody noted on a span of the timeline",
        (
            _HOST,
            Column("lane", TEXT, "lane of the event it was made on"),
            Column("event", TEXT, "name of that event"),
            Column("start_ns", INTEGER, "begin, from the host's origin"),
            Column("duration_ns", INTEGER, "wall time"),
            Column("text", TEXT, "the note"),
            Column("written_at", TEXT, "when, ISO 8601, UTC"),
        ),
    ),
    Table(
        "evidence",
        "one fact that a finding rests on",
        (
            Column("evidence_id", TEXT, "`RULE#NUMBER`, the same for the same run"),
            _RULE,
            Column("text", TEXT, "what it is"),
            Column("value", NUMBER, "its value, null where it is words", nullable=True),
            Column("unit", TEXT, "the value's unit", nullable=True),
            Column("host", TEXT, "the host where it can be seen", nullable=True),
            Column("step", INTEGER, "the step where it can be seen", nullable=True),
            Column("start_ns", INTEGER, "begin, from the host's origin", nullable=True),
            Column("duration_ms", NUMBER, "wall time", nullable=True),
            _SOURCE,
        ),
    ),
)
BY_NAME = {each.name: each for each in TABLES}


def tables_page() -> str:
    """The page docs/tables.md below its head: each table with its columns."""
    parts = []
    for table in TABLES:
        parts += [f"### {table.name}", "", f"One row is {table.of}.", ""]
        parts += ["| column | type | meaning |", "|---|---|---|"]
        parts += [
            f"| `{each.name}` | {each.kind}{', null' if each.nullable else ''} | {each.meaning} |"
            for each in table.columns
        ]
        parts.append("")
    return "\n".join(parts)
