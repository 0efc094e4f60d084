"""What is said of the persistent cache beside auto-sharding depends on the device and the release."""

import pytest

from tests.rules.given import given
from tests.rules.situations import started
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of


@pytest.mark.parametrize(
    ("is_tpu", "release", "says"),
    [
        (True, "2.9.0", "torch_xla 2.9 cannot load from a persistent cache on TPU"),
        (True, "2.10.0", "whether torch_xla 2.10 can load from the cache on TPU is unknown"),
        (False, "2.9.0", "on CPU a cache saves nothing"),
        (None, "2.9.0", ""),
    ],
)
def test_the_release_decides_what_is_said_of_the_cache(is_tpu, release, says):
    known = {} if is_tpu is None else {"is_tpu": is_tpu}
    signals = given(
        **started(600.0, CompileWithAutoSharding=1),
        framework="torch_xla",
        run_info={"versions": {"torch_xla": release}},
        **known,
    )
    outcome = outcome_of(find_rule("auto-sharding-cost"), signals)
    said = [each.text for each in outcome.evidence if "cache" in each.text]
    assert outcome.status == "failed"
    assert (says in said[0]) if says else said == []
