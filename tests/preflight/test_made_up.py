"""Values a script reads: usual checks pass."""

import pytest

pytestmark = pytest.mark.torch_xla


def noting():
    """Runs operators as they are and notes stand-ins, as preflight's own mode does for the device's tensors."""
    from torch.utils._python_dispatch import TorchDispatchMode

    from tpuprof.preflight.made_up import note

    class Noting(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            note(func, args, result)
            return result

    return Noting()


CHECKS = [
    ("torch.isnan(x).any()", False),
    ("torch.isinf(x).any()", False),
    ("torch.isfinite(x).all()", True),
    ("~torch.isfinite(x).all()", False),
    ("torch.isnan(x) | torch.isinf(x)", False),
    ("(torch.isnan(x) + torch.isinf(x)).sum()", 0),
    ("torch.isnan(x).sum() + 0", 1),
    ("torch.isclose(x, x * 2).all()", True),
    ("x != x", False),
    ("x == x", True),
    # How torch.distributions checks its parameters.
    ("torch._is_all_true(x == x)", True),
    ("torch._is_any_true(x != x)", False),
    ("x > 0", True),
    ("x > 1e4", False),
    ("x < float('inf')", True),
    ("(x.argmax(-1) == torch.zeros(1).long()).sum()", 1),
    ("x.argmax()", 0),
    ("x.mean()", 1.0),
    ("x.norm()", 1.0),
    ("(torch.arange(4) != -100).sum()", 1),
    ("torch.zeros(()).add_(x.sum())", 1.0),
    ("torch.zeros(3)", 0.0),
    ("torch.full((2,), 7.0)", 7.0),
    ("torch.logical_and(torch.isfinite(x), x < 5).all()", True),
]


@pytest.mark.parametrize(("code", "expected"), CHECKS)
def test_usual_checks_pass(code, expected):
    import torch

    from tpuprof.preflight.made_up import stand_in

    # The values themselves are as bad as can be: only the stand-ins are asked.
    x = torch.full((4,), float("nan"))
    with noting():
        x = x * 2
        value = stand_in(eval(code, {"torch": torch, "x": x}))
    assert value == expected
    assert type(value) is type(expected)
