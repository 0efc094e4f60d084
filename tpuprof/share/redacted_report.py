"""Redacts whole reports: what is private is learned from them, from their profiles, and from this machine."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tpuprof.report.schema import OpRow
from tpuprof.share.learn_profile import telling_texts
from tpuprof.share.redact import Redactor

if TYPE_CHECKING:
    from tpuprof.report.schema import Report


def redactor_for(*reports: Report) -> Redactor:
    """A redactor that has learned what is private from these reports, their profiles, and this machine."""
    from tpuprof.decode.find import host_name

    redactor = Redactor()
    redactor.learn_this_machine()
    for report in reports:
        redactor.learn(dataclasses.replace(report, ops=[]).sections())
        for name, text in _texts(report.ops):
            redactor.learn(text, name)
        for file in report.source.get("files", []):
            redactor.learn(str(Path(file).absolute()))
            redactor.learn(host_name(Path(file)), "host")
            redactor.learn(telling_texts(Path(file)))
    return redactor


def _texts(ops: list[OpRow]) -> Iterator[tuple[str, str]]:
    """Each text of ops once, with the name of its field: most of a report is numbers of ops and of their devices."""
    for field in dataclasses.fields(OpRow):
        if field.type == "str":
            yield from ((field.name, text) for text in dict.fromkeys(getattr(op, field.name) for op in ops))
    yield from (("device", text) for text in dict.fromkeys(core.device for op in ops for core in op.cores))
    yield from (("host_names", text) for text in dict.fromkeys(name for op in ops for name in op.host_names))


def redacted(report: Report, redactor: Redactor) -> Report:
    """A report as it may be sent, with the counts of what was replaced now and, in a saved one, before."""
    shown = redactor.value(report)
    counts = Counter(report.redactions or {})
    counts.update(redactor.counts_by_kind())
    return dataclasses.replace(shown, redactions=dict(counts))
