"""Torch in a program of JAX: ops on tensors of the CPU are the program's own work, those of torchax's tensors are not."""

import pytest

from tests.builders import TraceBuilder
from tests.model.test_host_samples import parts_ms
from tpuprof.analysis.sections.host_stacks import host_stack_rows

MAIN, DEGRADE = "<module> (/home/u/train.py:30)", "degrade (/home/u/train.py:7)"
LIB = "/venv/lib/python3.11/site-packages"
FUNCTION = f"__torch_function__ ({LIB}/torchax/tensor.py:235)"
MODE = f"__torch_dispatch__ ({LIB}/torchax/tensor.py:267)"
DISPATCH = f"dispatch ({LIB}/torchax/tensor.py:547)"
NATIVE = f"__call__ ({LIB}/torch/_ops.py:841)"
RESIZE = f"interpolate ({LIB}/torch/nn/functional.py:4789)"
TORCHAX_OP = f"_aten_convolution ({LIB}/torchax/ops/jaten.py:1106)"
JAX = f"bind ({LIB}/jax/_src/core.py:9)"
THROUGH = (FUNCTION, DISPATCH, MODE, DISPATCH)
CALLS_TORCH, CALLS_ITS_OWN = "func(*args, **kwargs)", "op.func(*args, **kwargs)"


def loop(*looks):
    """A step of JAX: 20 ms without an event, looked at before their end, then a call; `looks` are (frames below the program's line, their call)."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    python.event("train", 0, 21_000, _r=1, step_num=0)
    python.event("PjitFunction(step)", 20_000, 1_000)
    length = 19_500 // len(looks)
    for number, (below, call) in enumerate(looks):
        words = {
            "frames": ";".join((MAIN, DEGRADE, *below)),
            "call": call,
            "source": "/home/u/train.py:7",
            "user_call": "F.conv2d(hr, blur)",
        }
        trace.sampled(number * length, length, stack=number + 1, **words)
    return trace


def parts(host):
    found = parts_ms(host)
    return found.get("host:python", 0.0), found.get("dispatch", 0.0)


@pytest.mark.parametrize(
    ("below", "call"),
    [
        ((*THROUGH, NATIVE), "self._op(*args, **kwargs)"),
        ((FUNCTION, DISPATCH, RESIZE, MODE, DISPATCH, NATIVE), "self._op(*args, **kwargs)"),
        # An op of another library, which torchax hands on.
        ((FUNCTION, DISPATCH, MODE, NATIVE), "self._op(*args, **kwargs)"),
        (THROUGH, CALLS_TORCH),
        ((FUNCTION, f"_handle_tensor_constructor ({LIB}/torchax/tensor.py:488)"), CALLS_TORCH),
        ((*THROUGH, f"_to_copy ({LIB}/torchax/tensor.py:460)"), "res.to(device=new_device, dtype=new_dtype)"),
        # torchax is not there at all.
        ((RESIZE,), "torch._C._nn._upsample_bicubic2d_aa(input, size)"),
    ],
)
def test_ops_on_cpu_tensors_are_the_programs_own_work_at_their_line(read, below, call):
    host = read(loop((below, call)))
    assert parts(host) == (pytest.approx(19.5, abs=0.1), pytest.approx(1, abs=0.1))
    lines = [row.source for row in host_stack_rows([host]) if row.part == "host:python"]
    assert lines == ["/home/u/train.py:7"]


@pytest.mark.parametrize(
    ("below", "call"),
    [
        ((*THROUGH, TORCHAX_OP, JAX), "bind(*args)"),
        ((*THROUGH, TORCHAX_OP), "jnp.multiply(a, b)"),
        (THROUGH, CALLS_ITS_OWN),
        (THROUGH, "torch_pytree.tree_flatten(args)"),
        # A result is made a tensor.
        ((FUNCTION, DISPATCH, f"j2t_iso ({LIB}/torchax/tensor.py:650)"), "Tensor(x, self)"),
        # Torch runs below JAX, which traces a function.
        ((JAX, f"call_torch ({LIB}/torchax/interop.py:220)", *THROUGH, NATIVE), "self._op(*args, **kwargs)"),
    ],
)
def test_ops_on_tensors_of_torchax_are_dispatch(read, below, call):
    assert parts(read(loop((below, call)))) == (0, pytest.approx(20.5, abs=0.1))


@pytest.mark.parametrize(
    ("told", "expected"), [((*THROUGH, NATIVE), "host:python"), ((*THROUGH, TORCHAX_OP, JAX), "dispatch")]
)
@pytest.mark.parametrize("on_the_way", [THROUGH, (FUNCTION, DISPATCH, RESIZE), (RESIZE,)])
def test_what_is_on_the_way_to_an_op_is_what_the_ops_of_its_line_are(read, told, expected, on_the_way):
    look = (told, "call(x)")
    found = parts_ms(read(loop(look, (on_the_way, "torch_pytree.tree_flatten(args)"), look)))
    assert found[expected] == pytest.approx(20, abs=1.1)
