"""torch.compile compiles the program's functions, and none of ours that a capture puts around torch's."""

import pytest

from tests import scripts

# Behind the break at `if` dynamo looks at what Python calls: at `Tensor.__bool__`, so at what is in its place.
BREAKS = """
import json
from unittest import mock
import torch
from torch._dynamo.utils import counters, get_compilation_metrics
from tpuprof.instrument import wrapped_calls

def noted(tensor):
    return tensor is not None

# Of another code each time: what dynamo has done with one stays.
WRAPPED = "def wrapped(tensor):\\n    noted(tensor)\\n    return original(tensor)"

def around(original):
    names = {"noted": noted, "original": original}
    exec(WRAPPED, names)
    return names["wrapped"]

def guarded(x):
    x = x + 1
    if x.sum() > 0:
        return x * 2
    return x

def frames():
    torch._dynamo.reset()
    counters.clear()
    before = len(get_compilation_metrics())
    call = torch.compile(guarded, backend="eager")
    for _ in range(3):
        call(torch.ones(4))
    names = [each.co_name for each in get_compilation_metrics()[before:]]
    return names, counters["frames"]["total"]

def beside_ours():
    replaced = wrapped_calls.Replaced()
    replaced.replace(torch.Tensor, "__bool__", around)
    found = frames()
    replaced.put_back()
    return found

alone = frames()
with mock.patch.object(wrapped_calls, "skip", lambda *args, **kwargs: None):
    unprotected = beside_ours()
print("FACTS " + json.dumps({"alone": alone, "unprotected": unprotected, "beside": beside_ours()}))
"""


def test_a_wrapper_behind_a_graph_break_is_not_compiled(tmp_path):
    pytest.importorskip("torch")
    found = scripts.facts(scripts.run(scripts.write(tmp_path / "breaks.py", BREAKS, prelude=False)))
    names, _ = found["alone"]
    assert len(names) == 2 and names[0] == "guarded" and "resume_in_guarded" in names[1]
    # The figures tell: dynamo compiles the wrapper where nobody says that it must not.
    assert "wrapped" in found["unprotected"][0]
    assert found["beside"] == found["alone"]
