"""What compiling an eager step is said to save: the waits of its small programs go as well."""

from tests.rules.given import given
from tests.rules.situations import eager
from tpuprof import parts as part
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.rules.tracing.eager_mode.rule import LEFT_AT_LEAST, LEFT_AT_MOST
from tpuprof.simulate.timeline import DEVICE_WAIT


def test_a_compiled_step_waits_for_none_of_its_ops():
    price = outcome_of(find_rule("eager-mode"), given(**eager(0.8))).price
    left = {change.host[part.TRACING]: change.host[DEVICE_WAIT] for change in (price.least, price.most)}
    assert left == {LEFT_AT_LEAST: 0.0, LEFT_AT_MOST: 0.0}
