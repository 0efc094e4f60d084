"""Redacts whole reports: what is private is learned from them, from their profiles, and from this machine."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuprof.report.op_rows import TEXTS, OpRows
from tpuprof.share.learn_profile import telling_texts
from tpuprof.share.redact import Redactor

if TYPE_CHECKING:
    from tpuprof.report.schema import Report


def redactor_for(*reports: Report, ahead: Callable[[], Mapping[str, list[str]]] | None = None) -> Redactor:
    """A redactor that has learned what is private from these reports, their profiles, and this machine.

    `ahead` gives what `telling_texts` finds in profiles, by path, where somebody has begun to look for that.
    """
    from tpuprof.decode.find import host_name

    known = ahead() if ahead is not None else {}
    redactor = Redactor()
    redactor.learn_this_machine()
    for report in reports:
        redactor.learn(dataclasses.replace(report, ops=[]).sections())
        for name, texts in _texts(OpRows.of(report.ops)):
            redactor.learn_all(texts, name)
        for file in report.source.get("files", []):
            redactor.learn(str(Path(file).absolute()))
            redactor.learn(host_name(Path(file)), "host")
            telling = known.get(str(Path(file)))
            redactor.learn_all(telling_texts(Path(file)) if telling is None else telling, "")
    return redactor


def _texts(ops: OpRows) -> Iterator[tuple[str, Iterable[str]]]:
    """Texts of ops by the name of their field: most of a report is numbers of ops and of their devices."""
    yield from ((name, ops.column(name)) for name in TEXTS)
    yield "device", ops.devices()
    yield "host_names", chain.from_iterable(ops.column("host_names"))


def by_column(report: Report) -> Report:
    """The same with its ops as columns: each text is looked at once, and pseudonyms are numbered alike everywhere."""
    ops: Any = OpRows.of(report.ops)
    return dataclasses.replace(report, ops=ops)


def redacted(report: Report, redactor: Redactor) -> Report:
    """A report as it may be sent, with the counts of what was replaced now and, in a saved one, before."""
    shown = redactor.value(by_column(report))
    counts = Counter(report.redactions or {})
    counts.update(redactor.counts_by_kind())
    return dataclasses.replace(shown, redactions=dict(counts))
