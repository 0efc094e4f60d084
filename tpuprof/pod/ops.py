"""Ops of many hosts added up: each host's sums are integers, so their order changes nothing."""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import Any

import numpy as np
import orjson

from tpuprof.model.device.op_facts import OpFacts
from tpuprof.model.device.op_table import OpTotals, by_self_time, numbered
from tpuprof.model.intervals import Int64
from tpuprof.pod.squeeze import by_column, by_row, squeezed, unsqueezed
from tpuprof.records import record

# Columns of sums. `clock_ps` is -1 where a device states no clock.
SUMS = ("occurrences", "total_ps", "self_ps", "step_ps", "clock_ps")
# What is packed of an op, before its `OpFacts`; the numbers among it are columns of integers.
_STATED = ("program", "name", "category", "kind", "source", "scope", "flops", "bytes", "hbm_bytes")
_NUMBERS = ("kind", "flops", "bytes", "hbm_bytes")
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

    totals: OpTotals
    hosts: list[int]
    names: list[list[str]]


def columns_of(totals: OpTotals) -> OpColumns:
    """The ops of one host as columns."""
    stated = (getattr(totals, name) for name in _STATED)
    columns = [each.tolist() if isinstance(each, np.ndarray) else each for each in stated]
    columns += [totals.by_fact(attrgetter(name)) for name in OpFacts._fields]
    rows = sorted(range(len(totals)), key=lambda row: (totals.program[row], totals.name[row]))
    told = [[column[row] for row in rows] for column in columns] if rows else []
    return OpColumns(
        squeezed(orjson.dumps(told)),
        {name: getattr(totals, name)[np.array(rows, np.int64)] for name in SUMS},
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
    order = by_self_time(sums["self_ps"], [(each[1], each[0]) for each in facts])
    names = [[hosts[at][0] for at in column if at >= 0] for column in first[:, order].T.tolist()]
    sums["clock_ps"][unknown > 0] = -1
    totals = _totals([facts[row] for row in order.tolist()], {name: sums[name][order] for name in SUMS})
    return MergedOps(totals, count[order].tolist(), names)


def _rows_of(packed: bytes, number: dict[tuple[str, str], int], facts: list[list[Any]]) -> Int64:
    """The row of each op in these facts; ops that no host before had get a row of their own."""
    found = by_row(orjson.loads(unsqueezed(packed)))
    for each in found:
        if number.setdefault((each[0], each[1]), len(number)) == len(facts):
            facts.append(each)
    return np.array([number[each[0], each[1]] for each in found], np.int64)


def _totals(facts: list[list[Any]], sums: dict[str, Int64]) -> OpTotals:
    columns = by_column(facts) if facts else [[] for _ in (*_STATED, *OpFacts._fields)]
    stated: dict[str, Any] = dict(zip(_STATED, columns, strict=False))
    fact, different = numbered(zip(*columns[len(_STATED) :], strict=True))
    numbers = {name: np.array(stated[name], np.int64) for name in _NUMBERS}
    return OpTotals(**{**stated, **numbers, **sums}, facts=[OpFacts(*each) for each in different], fact=fact)
