"""What leaving double precision saves: up to three quarters on a CPU, and on a TPU, which emulates it, up to all."""

import pytest

from tests.rules.given import given
from tests.rules.situations import special
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of


@pytest.mark.parametrize(
    ("is_tpu", "matmul_type", "most", "least"),
    [
        (False, "", 1 - 0.4 * 0.75, 1 - 0.4 * 0.25),
        (False, "f64", 1 - 0.4 * 0.75, 1 - 0.4 * 0.25),
        (True, "", 1 - 0.4, 1 - 0.4 * 0.5),
        (True, "bf16", 1 - 0.4, 1.0),
    ],
    ids=["CPU", "products on a CPU", "TPU", "a product on a TPU may be in float32"],
)
def test_what_float32_saves(is_tpu, matmul_type, most, least):
    signals = special(40.0, double=True, self_ms_per_step=40.0, matmul_type=matmul_type)
    outcome = outcome_of(find_rule("float64-ops"), given(**{**signals, "is_tpu": is_tpu}))
    assert outcome.price.most.device == {"compute": pytest.approx(most)}
    assert outcome.price.least.device == {"compute": pytest.approx(least)}
