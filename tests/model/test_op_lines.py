"""Ops that differ in the numbers of names alone share a line; what is said of each op is what its own line says."""

import numpy as np
import pytest

from tests.builders import TraceBuilder, op
from tpuprof.analysis.analyze import analyze_run
from tpuprof.model.device.op_kind import OpKind, op_kind
from tpuprof.model.device.op_lines import op_lines

SHAPE = "bf16[8,128]{1,0:T(8,128)(2,1)}"


def line(name, code="fusion", shape=SHAPE, operand="%param.7"):
    return f"%{name} = {shape} {code}({shape} {operand}, {shape} %copy.9), kind=kLoop, calls=%fused_computation.{len(name)}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (line("fusion.1"), line("fusion.22", operand="%param.8")),
        (line("fusion.1", operand="%fusion.3.clone"), line("fusion.2", operand="%fusion.44.clone")),
        ("dot.1", "dot.2"),
    ],
)
def test_numbers_of_names_do_not_tell_lines_apart(one, other):
    assert op_lines([one, other], ["fusion.1", "fusion.2"], ["", ""]).first == [0]


@pytest.mark.parametrize(
    ("long_names", "names", "categories"),
    [
        ([line("fusion.1"), line("fusion.2", shape="f32[8,128]{1,0}")], ["fusion.1", "fusion.2"], ["", ""]),
        ([line("fusion.1"), line("copy.1", "copy")], ["fusion.1", "copy.1"], ["", ""]),
        ([line("fusion.1"), line("fusion.2")], ["fusion.1", "all-gather.2"], ["", ""]),
        ([line("fusion.1"), line("fusion.2")], ["fusion.1", "fusion.2"], ["loop fusion", "all-gather"]),
        (["a\nb.1", "a\nb"], ["x.1", "x"], ["", "other"]),
    ],
)
def test_what_else_differs_does(long_names, names, categories):
    lines = op_lines(long_names, names, categories)
    assert lines.first == [0, 1]
    assert lines.of.tolist() == [0, 1]


def test_no_ops_have_no_lines():
    assert op_lines([], [], []).first == []
    assert len(op_lines([], [], []).of) == 0


def test_a_line_with_a_break_in_it_is_one_line():
    lines = op_lines(["a.1\nb.1", "a.2\nb.2", ""], ["x.1", "x.2", "x"], ["", "", ""])
    assert lines.of.tolist() == [0, 0, 1]


NAMES = [
    "fusion.1",
    "fusion.2",
    "all-reduce.3",
    "copy-start.4",
    "copy-done.4",
    "dot.5",
    "while.6",
    "send.1.clone",
]
CODES = [
    "fusion",
    "all-gather",
    "copy-start",
    "copy-done",
    "dot",
    "convolution",
    "while",
    "custom-call",
    "recv-done",
]
LAYOUTS = ["{1,0}", "{1,0:T(8,128)(2,1)S(5)}", "{1,0:T(8,128)S(1)}"]
OPERANDS = ["%param.7", "%xla_megascale_send.2", "%p0", "%get-tuple-element.3.clone"]


def test_kinds_are_those_of_each_op_alone():
    rng = np.random.default_rng(7)
    rows = [
        tuple(
            rng.choice(each) for each in (NAMES, CODES, LAYOUTS, OPERANDS, ["", "loop fusion", "all-gather"])
        )
        for _ in range(400)
    ]
    names = [f"{name}{number}" for number, (name, *_) in enumerate(rows)]
    long_names = [
        line(name, code, f"f32[8,{row % 3}]{layout}", operand)
        for row, (name, (_, code, layout, operand, _)) in enumerate(zip(names, rows, strict=True))
    ]
    categories = [str(each[-1]) for each in rows]
    lines = op_lines(long_names, names, categories)
    kinds = [op_kind(long_names[row], names[row], categories[row]) for row in lines.first]
    assert [kinds[line] for line in lines.of.tolist()] == [
        op_kind(*each) for each in zip(long_names, names, categories, strict=True)
    ]
    assert len(set(kinds)) >= 5


def test_ops_of_one_line_say_the_same_and_each_its_own_numbers(tmp_path):
    trace = TraceBuilder()
    device = trace.tpu(0)
    device.line("XLA Modules").event("step(1)", 0, 900)
    for row in range(6):
        stated = op(f"convolution.{row}", "convolution")
        stated["facts"]["flops"] = 1000 * row
        device.line("XLA Ops").event(start=10 * row, duration=1 + row, **stated)
    rows = {each.name: each for each in analyze_run(trace.write(tmp_path / "h.xplane.pb")).ops}
    found = [rows[f"convolution.{row}"] for row in range(6)]
    assert [each.flops for each in found] == [None, 1000, 2000, 3000, 4000, 5000]
    assert [1000 * each.self_ms for each in found] == pytest.approx([1, 2, 3, 4, 5, 6])
    assert {each.kind for each in found} == {OpKind.COMPUTE.name.lower()}
    assert {each.padding for each in found} == {None}
