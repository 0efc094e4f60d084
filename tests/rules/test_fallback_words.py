"""Ops that fall back are named with their lines, and those of the backward pass with the line they derive."""

from tpuprof.report.labels import fallback_text
from tpuprof.report.sections import FallbackRow


def test_an_op_of_the_backward_pass_is_named_with_the_line_whose_gradient_it_computes():
    assert fallback_text(FallbackRow("aten::lgamma", 1.0, "t.py:3")) == "aten::lgamma at t.py:3"
    gradient = FallbackRow("aten::digamma", 1.0, "t.py:3", gradient=True)
    assert fallback_text(gradient) == "aten::digamma (the gradient of t.py:3)"
    assert fallback_text(FallbackRow("aten::digamma", 1.0, "", gradient=True)) == "aten::digamma"
