"""Texts that are looked at together come out as if each was looked at alone."""

import base64
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report import planted, reports
from tpuprof.report.op_rows import OpRows
from tpuprof.report.schema import CoreRow, OpRow
from tpuprof.safe_text import TO_SAFE
from tpuprof.share.among import Among
from tpuprof.share.learned import Learned
from tpuprof.share.pseudonyms import Pseudonyms
from tpuprof.share.redact import Redactor
from tpuprof.share.redacted_report import redacted, redactor_for
from tpuprof.share.replacing import Replacing

OPS = [
    "fusion.12",
    "all-gather.3",
    "%copy.1 = f32[8]{0} copy(%p)",
    "",
    "jit(step)/dot_general",
    "\u017fusion",
]
ENCODED = [base64.b64encode(each.encode() + b" " * 50).decode() for each in planted.EVERYTHING.splitlines()]
LINES = [*planted.EVERYTHING.splitlines(), *ENCODED, *OPS]
some_lines = st.lists(st.sampled_from([*LINES, *(each.translate(TO_SAFE) for each in LINES)]), max_size=12)


def counts(redactor):
    """How often each value was replaced, whatever number it has."""
    return {(kind, value): times for kind, value, _, times in redactor.replacements()}


def learned():
    redactor = Redactor()
    redactor.learn(planted.EVERYTHING)
    return redactor


@settings(max_examples=150, deadline=None)
@given(some_lines, st.booleans())
def test_what_is_replaced_is_the_same(lines, knows):
    together, alone = (learned() if knows else Redactor() for _ in range(2))
    assert together.texts(lines) == [alone.text(each) for each in lines]
    assert counts(together) == counts(alone)


@settings(max_examples=150, deadline=None)
@given(some_lines, st.sampled_from(["", "source", "host", "api_key"]))
def test_what_is_learned_is_the_same(lines, name):
    together, alone = Redactor(), Redactor()
    together.learn_all(lines, name)
    for each in lines:
        alone.learn(each, name)
    assert together.literals() == alone.literals()
    assert together.text(planted.EVERYTHING) == alone.text(planted.EVERYTHING)


@pytest.mark.parametrize("line", LINES)
def test_each_line_alone_in_a_crowd_is_found(line):
    redactor = learned()
    assert redactor.texts(["x.1", line, "y.2"])[1] == learned().text(line)


def test_only_what_is_there_is_tried():
    passes = Replacing(Pseudonyms(), Learned(lambda: None), secrets_only=False).passes()
    assert not Among(["fusion.1", "copy.2"]).passes(passes, "copy.2")
    line = "copy.2 of vm.local"
    some = Among(["fusion.1", line]).passes(passes, line)
    assert 0 < len(some) < len(passes) / 4


def row(name, source, device="/device:TPU:0", host="worker-secret-7"):
    return OpRow(
        name, "fusion", "compute", "jit_step", 3, 1.0, 1.0, None, None, source, "block",
        cores=[CoreRow(device, 3, 1.0, 1.0)], host_names=[host],
    )  # fmt: skip


def test_ops_by_column_come_out_as_row_by_row():
    rows = [
        row("fusion.1", "/home/alice/train.py:3"),
        row("fusion.2", "/home/alice/train.py:3", device="alice@vm"),
        row("fusion.3", "model.py:4", host=""),
    ]
    by_column, by_row = Redactor(), Redactor()
    for redactor in (by_column, by_row):
        redactor.learn(rows)
        redactor.learn("worker-secret-7", "host")
    found = by_column.value(OpRows.of(rows))
    assert isinstance(found, OpRows)
    assert "alice" not in str(list(found)) and "worker-secret-7" not in str(list(found))
    assert found[0].source == by_row.value(rows)[0].source
    assert counts(by_column) == counts(by_row)
    assert [found[at] for at in (2, 0)][1].name == "fusion.1"


def test_outputs_of_one_run_agree_whether_its_ops_are_rows_or_columns():
    rows = [row("a", "/home/zoe/b.py:1", device="amy@vm"), row("b", "/home/amy/a.py:1", device="zoe@vm")]
    report = replace(reports.report(), ops=rows)
    columns = replace(report, ops=OpRows.of(rows))
    texts = [str(list(redacted(each, redactor_for(each)).ops)) for each in (report, columns)]
    assert texts[0] == texts[1]
