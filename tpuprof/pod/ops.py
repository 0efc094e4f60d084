"""Ops of many hosts added up: each host's sums are integers, so their order changes nothing."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import orjson

from tpuprof.model.device.op_facts import OpFacts
from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.device.op_table import OpTotal, by_self_time
from tpuprof.model.intervals import Int64
from tpuprof.pod.squeeze import by_column, by_row, squeezed, unsqueezed
from tpuprof.records import record

# Columns of sums. `clock_ps` is -1 where a device states no clock.
SUMS = ("occurrences", "total_ps", "self_ps", "step_ps", "clock_ps")
# Sets of facts that are kept once for all hosts that have the same (sets): a pod runs a few programs.
_SETS_KEPT = 256


@record(frozen=True)
class OpColumns:
    """All ops of one host, by program and name: what each is (`facts`, packed JSON by column), and sums of each."""

    facts: bytes
    sums: dict[str, Int64]


@record(frozen=True)
class MergedOps:
    """Ops of all hosts, the one with most self time first, and by op the hosts that run it: how many, the first two."""

    totals: list[OpTotal]
    hosts: list[int]
    names: list[list[str]]


def columns_of(totals: list[OpTotal]) -> OpColumns:
    """The ops of one host as columns."""
    rows = sorted(totals, key=lambda op: (op.program, op.name))
    facts = [
        (
            op.program,
            op.name,
            op.category,
            int(op.kind),
            op.source,
            op.scope,
            op.flops,
            op.bytes,
            op.hbm_bytes,
        )
        for op in rows
    ]
    clock = [-1 if op.clock_ps is None else op.clock_ps for op in rows]
    sums = {
        name: np.array([getattr(op, name) for op in rows], np.int64) for name in SUMS if name != "clock_ps"
    }
    told = [(*each, *op.facts) for each, op in zip(facts, rows, strict=True)]
    return OpColumns(
        squeezed(orjson.dumps(by_column(told))),
        {**sums, "clock_ps": np.array(clock, np.int64)},
    )


@lru_cache(maxsize=_SETS_KEPT)
def same(facts: bytes) -> bytes:
    """The object of these bytes that was there first, so that a thousand hosts keep it once."""
    return facts


def merge_ops(hosts: list[tuple[str, OpColumns]]) -> MergedOps:
    """The ops of all hosts, which are given by name; of an op the first host says what it is."""
    number: dict[tuple[str, str], int] = {}
    facts: list[list[Any]] = []
    rows: dict[bytes, Int64] = {}
    for _, each in hosts:
        if each.facts not in rows:
            rows[each.facts] = _rows_of(each.facts, number, facts)
    sums = {name: np.zeros(len(facts), np.int64) for name in SUMS}
    count, unknown = np.zeros((2, len(facts)), np.int64)
    first = np.full((2, len(facts)), -1, np.int64)
    for at, (_, each) in enumerate(hosts):
        row = rows[each.facts]
        for name in SUMS:
            sums[name][row] += each.sums[name]
        unknown[row] += each.sums["clock_ps"] < 0
        for place in (0, 1):
            own = row[count[row] == place]
            first[place, own] = at
        count[row] += 1
    order = by_self_time(
        [(int(own), each[1], each[0]) for own, each in zip(sums["self_ps"], facts, strict=True)]
    )
    return MergedOps(
        [
            _total(facts[row], {name: int(sums[name][row]) for name in SUMS}, bool(unknown[row]))
            for row in order
        ],
        [int(count[row]) for row in order],
        [[hosts[at][0] for at in first[:, row].tolist() if at >= 0] for row in order],
    )


def _rows_of(packed: bytes, number: dict[tuple[str, str], int], facts: list[list[Any]]) -> Int64:
    """The row of each op in these facts; ops that no host before had get a row of their own."""
    found = by_row(orjson.loads(unsqueezed(packed)))
    for each in found:
        if number.setdefault((each[0], each[1]), len(number)) == len(facts):
            facts.append(each)
    return np.array([number[each[0], each[1]] for each in found], np.int64)


def _total(facts: list[Any], sums: dict[str, int], unknown: bool) -> OpTotal:
    program, name, category, kind, source, scope, flops, size, hbm_bytes, *rest = facts
    return OpTotal(
        name=name,
        category=category,
        kind=OpKind(kind),
        program=program,
        source=source,
        scope=scope,
        flops=flops,
        bytes=size,
        facts=OpFacts(*rest),
        hbm_bytes=hbm_bytes,
        occurrences=sums["occurrences"],
        total_ps=sums["total_ps"],
        self_ps=sums["self_ps"],
        step_ps=sums["step_ps"],
        clock_ps=None if unknown else sums["clock_ps"],
    )
