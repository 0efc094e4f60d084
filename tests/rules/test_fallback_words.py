"""Ops that fall back are named with their lines, and those of the backward pass with the line they derive."""

from dataclasses import replace

from tpuprof.analysis.sections.runtime import fallback_rows
from tpuprof.model.notes import Notes
from tpuprof.model.telemetry import Counted, StepRecord, counted
from tpuprof.report.labels import fallback_text
from tpuprof.report.sections import FallbackRow


def test_an_op_of_the_backward_pass_is_named_with_the_line_whose_gradient_it_computes():
    assert fallback_text(FallbackRow("aten::lgamma", 1.0, "t.py:3")) == "aten::lgamma at t.py:3"
    gradient = FallbackRow("aten::digamma", 1.0, "t.py:3", gradient=True)
    assert fallback_text(gradient) == "aten::digamma (the gradient of t.py:3)"
    assert fallback_text(FallbackRow("aten::digamma", 1.0, "", gradient=True)) == "aten::digamma"


def test_a_line_of_a_library_in_which_the_op_is_called_is_named():
    """`learn.fit_one_cycle(1)` was all that was said of a pooling layer of fastai's."""
    inside = "/v/lib/python3.11/site-packages/fastai/vision/models/xresnet.py:40"
    row = FallbackRow("aten::lgamma", 1.0, "t.py:3", inside=inside)
    assert fallback_text(row) == "aten::lgamma at t.py:3 (in fastai/vision/models/xresnet.py:40)"
    gradient = fallback_text(replace(row, gradient=True))
    assert gradient == "aten::lgamma (the gradient of t.py:3, in fastai/vision/models/xresnet.py:40)"
    noted = [StepRecord(0, 1, True, {"aten::lgamma": 1}, fallbacks={"aten::lgamma": "t.py:3"})]
    noted = [replace(each, fallbacks_inside={"aten::lgamma": inside}) for each in noted]
    assert fallback_rows([counted(noted)], Notes(), None) == [row]


def test_all_lines_are_named_and_none_twice():
    assert fallback_text(FallbackRow("aten::nonzero", 7.0, "t.py:3", also=["t.py:5", "t.py:8"])) == (
        "aten::nonzero at t.py:3, t.py:5 and t.py:8"
    )
    first = Counted(captured=8, fallbacks={"aten::nonzero": 8}, lines={"aten::nonzero": "t.py:3"})
    second = replace(first, lines={"aten::nonzero": "t.py:5"})
    first = replace(first, lines_also={"aten::nonzero": ["t.py:5"]})
    (row,) = fallback_rows([first, second], Notes(), None)
    assert row.places == ["t.py:5"]
    (row,) = fallback_rows([second, first], Notes(), None)
    assert row.places == ["t.py:3", "t.py:5"]
