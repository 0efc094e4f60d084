"""Questions about captures that a client of `tpuprof mcp` asks: its calls, how it reads the answers, and the truth."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.questions import truth

ON_CPU = (
    "decoder_fsdpv2",
    "decoder_fsdpv2_scan",
    "decoder_loop",
    "decoder_scan",
    "device_to_host_sync",
    "input_starved",
    "recompile_shapes",
)
PREDICTED = (
    "predicted_decoder_fsdpv2",
    "predicted_decoder_loop",
    "predicted_decoder_offload",
    "predicted_decoder_scan",
)
V6E = "tpu_v6e_host_offload"
Call = tuple[str, dict[str, Any]]

_P99 = """SELECT {group}duration_ps FROM (SELECT {group}duration_ps,
 row_number() OVER ({part}ORDER BY duration_ps) AS r, count(*) OVER ({whole}) AS n FROM {rows})
 WHERE r = ceil(0.99 * n)"""
MOST_FREQUENT = "SELECT event, count(*) AS n FROM host_events GROUP BY event ORDER BY n DESC, event LIMIT 1"
LONGEST_STEP = "SELECT step, duration_ps FROM steps ORDER BY duration_ps DESC LIMIT 1"
P99_OF_MOST = _P99.format(
    group="", part="", whole="", rows=f"host_events WHERE event = (SELECT event FROM ({MOST_FREQUENT}))"
)
BUSIEST = (
    "SELECT thread_id, count(*) AS n FROM host_events GROUP BY thread_id ORDER BY n DESC, thread_id LIMIT 1"
)
COMPILES = "SELECT sum(increase_count), max(step) FROM counters WHERE name = 'UncachedCompile'"
# How the answer of `diff` tells them: "Compiles: 1 in 6 steps, now 0 in 6."
_COMPILES_TOLD = re.compile(r"(\d+) in (\d+)(?= steps, now|\.)")
_CORE = "op_events WHERE line = 'core' AND device = '/device:TPU:0'"
COSTLIEST = f"SELECT op, sum(duration_ps) AS ps FROM {_CORE} GROUP BY op ORDER BY ps DESC, op LIMIT 1"
GAP = f"""WITH o AS (SELECT op, start_ps, duration_ps, start_ps + duration_ps AS end_ps FROM {_CORE}),
 g AS (SELECT start_ps, max(end_ps) OVER w AS before, arg_max(op, (end_ps, start_ps)) OVER w AS op FROM o
 WINDOW w AS (ORDER BY start_ps, duration_ps ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
 SELECT op, start_ps - before AS gap FROM g WHERE before IS NOT NULL ORDER BY gap DESC, start_ps LIMIT 1"""
_SHAPED = """(SELECT split_part(split_part(hlo, ' = ', 2), '{', 1) AS shape, duration_ps
 FROM op_events e JOIN ops o USING (host, device, line, op_id) WHERE e.line = 'core' AND e.device = '/device:TPU:0'
 AND hlo LIKE '% = %')"""
BY_SHAPE = (
    _P99.format(
        group="shape, ",
        part="PARTITION BY shape ",
        whole="PARTITION BY shape",
        rows=f"{_SHAPED} WHERE shape <> ''",
    )
    + " ORDER BY duration_ps DESC, shape LIMIT 1"
)
PROGRAMS = "SELECT count(*), sum(duration_ps) FROM programs WHERE device = '/device:TPU:0'"


@dataclass(frozen=True)
class Question:
    """One question: `calls` to make, `read` to make of the answers, `truth` from the files."""

    text: str
    captures: tuple[str, ...]
    calls: tuple[Call, ...]
    truth: Callable[..., Any]
    read: Callable[[list[Any]], Any] = lambda answers: first_row(answers[-1])


def first_row(answer: dict[str, Any]) -> Any:
    """The first row of a query's answer; its one value where it has one."""
    row = answer["rows"][0]
    return row[0] if len(row) == 1 else row


def questions(with_v6e: bool) -> list[Question]:
    """All questions; those of the v6e capture where it is on this machine."""
    found = [each for name in ON_CPU for each in _of_hosts(name)]
    devices = (*PREDICTED, V6E) if with_v6e else PREDICTED
    found += [each for name in devices for each in _of_devices(name)]
    pairs = (
        ("decoder_loop", "decoder_scan"),
        ("decoder_loop", "device_to_host_sync"),
        ("decoder_fsdpv2", "decoder_fsdpv2_scan"),
    )
    found += [_of_a_pair(base, candidate) for base, candidate in pairs]
    return [
        *found,
        _which_calls_recompile("recompile_shapes"),
        _compiles_since("recompile_shapes", "decoder_loop"),
    ]


def _query(run: str, sql: str) -> Call:
    return "query", {"run": run, "sql": sql}


def _of_hosts(name: str) -> list[Question]:
    asked = [
        (
            "Which event do the host's threads have most often, and how often?",
            MOST_FREQUENT,
            truth.most_frequent,
        ),
        ("Which step takes longest, and how long?", LONGEST_STEP, truth.longest_step),
        (
            "What is the p99 duration of the most frequent host event?",
            P99_OF_MOST,
            truth.p99_of_most_frequent,
        ),
        ("Which thread has most events, and how many?", BUSIEST, truth.busiest_thread),
        (
            "How many graphs did the process compile, and in which step the last?",
            COMPILES,
            truth.compiles_noted,
        ),
    ]
    return [Question(text, (name,), (_query(name, sql),), answer) for text, sql, answer in asked]


def _of_devices(name: str) -> list[Question]:
    asked = [
        ("Which op takes most time on the first core, and how much?", COSTLIEST, truth.costliest_op),
        (
            "Which op precedes the largest gap of the first core, and how long is the gap?",
            GAP,
            truth.before_the_largest_gap,
        ),
        ("Ops of which result shape have the largest p99 duration?", BY_SHAPE, truth.p99_by_shape),
    ]
    return [Question(text, (name,), (_query(name, sql),), answer) for text, sql, answer in asked]


def _which_calls_recompile(name: str) -> Question:
    return Question(
        "Which calls end in a compile within the captured steps, and in which step?",
        (name,),
        (("compiles", {"run": name}),),
        truth.calls_that_compile,
        lambda answers: [[each["step"], *each["frames"]] for each in answers[0]["compiles"]],
    )


def _compiles_since(base: str, candidate: str) -> Question:
    return Question(
        "What changed since the other run: how many compiles are there in how many captured steps, before and now?",
        (base, candidate),
        (("diff", {"base": base, "candidate": candidate}),),
        lambda first, second: [*truth.captured_compiles(first), *truth.captured_compiles(second)],
        lambda answers: [
            int(number) for each in _COMPILES_TOLD.findall(answers[0]["sentence"]) for number in each
        ],
    )


def _of_a_pair(base: str, candidate: str) -> Question:
    calls = (_query(base, LONGEST_STEP), _query(candidate, LONGEST_STEP))
    return Question(
        "By how much has the longest step changed since the other run?",
        (base, candidate),
        calls,
        lambda first, second: truth.longest_step(second)[1] - truth.longest_step(first)[1],
        lambda answers: first_row(answers[1])[1] - first_row(answers[0])[1],
    )
