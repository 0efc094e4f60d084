"""What compiling an eager step is said to save: the waits of its small programs go as well."""

import pytest

from tests.rules.given import given
from tests.rules.situations import eager
from tpuprof import parts as part
from tpuprof.model.host.eager_mode import EagerOps
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.rules.tracing.eager_mode.rule import LEFT_AT_LEAST, LEFT_AT_MOST
from tpuprof.simulate.timeline import DEVICE_WAIT


def test_a_compiled_step_waits_for_none_of_its_ops():
    price = outcome_of(find_rule("eager-mode"), given(**eager(0.8))).price
    left = {change.host[part.TRACING]: change.host[DEVICE_WAIT] for change in (price.least, price.most)}
    assert left == {LEFT_AT_LEAST: 0.0, LEFT_AT_MOST: 0.0}


def test_beside_a_compiled_function_the_ops_own_time_is_sold_and_the_waits_stay():
    """46.7 to 71.9 ms was said with high confidence of an optimizer that saved 22 in the compiled function."""
    ops = EagerOps(426.0, counted=True, own_share=0.8, cuts_share=0.2)
    found = outcome_of(find_rule("eager-mode"), given(**eager(0.8) | {"eager_ops": ops}))
    least, most = found.price.least.host, found.price.most.host
    assert set(least) == set(most) == {part.TRACING, part.DISPATCH}
    left = sorted((least[part.TRACING], most[part.TRACING]))
    assert left == pytest.approx([1 - (1 - LEFT_AT_LEAST) * 0.8, 1 - (1 - LEFT_AT_MOST) * 0.2])
    assert (found.share, found.confidence) == (pytest.approx(0.64), "medium")
    assert "each op outside of the compiled function" in found.title
    advice = find_rule("eager-mode").page.remedy("torch_xla").text_for(found.cases)
    assert "is compiled already" in advice
    assert "forward, backward" not in advice


def test_where_the_device_hardly_waits_for_the_ops_themselves_it_passes():
    ops = EagerOps(426.0, counted=True, own_share=0.05, cuts_share=0.01)
    found = outcome_of(find_rule("eager-mode"), given(**eager(0.8) | {"eager_ops": ops}))
    assert found.status == "passed"
