"""Ops are distinguished by category, opcode and memory space."""

import pytest

from tpuprof.model.device.op_kind import OpKind, collective_kind, op_kind, opcode

TO_DEVICE = (
    "%copy-done.2 = f32[8]{0:T(8,128)} copy-done((f32[8]{0:T(8,128)}, f32[8]{0:T(8,128)S(5)}, "
    "u32[]{:S(2)}) %copy-start.2)"
)
WITHIN_HBM = "%copy-done = f32[8]{0:T(8,128)S(1)} copy-done((f32[8]{0}, f32[8]{0}, u32[]{:S(2)}) %copy-start)"
SLICE_DONE = (
    "%slice-done.4 = bf16[8]{0:S(1)} async-done(((bf16[9]{0}), bf16[8]{0:S(1)}, s32[]{:S(2)}) %slice-start.4)"
)
PYTHON = '%c = f32[] custom-call(f32[] %p), custom_call_target="xla_ffi_partitioned_python_cpu_callback"'
FUSED_MATMUL = "%async-collective-fusion.2 = bf16[8,8]{1,0} fusion(bf16[8,8]{1,0} %p), kind=kOutput"


@pytest.mark.parametrize(
    ("long_name", "short_name", "category", "kind"),
    [
        ("%fusion.1 = f32[8]{0} fusion(f32[8]{0} %p)", "fusion.1", "loop fusion", OpKind.COMPUTE),
        ("", "dot.12", "", OpKind.COMPUTE),
        (TO_DEVICE, "copy-done.2", "copy-done", OpKind.OFFLOAD),
        (WITHIN_HBM, "copy-done", "copy-done", OpKind.ASYNC_WAIT),
        (SLICE_DONE, "slice-done.4", "async-done", OpKind.ASYNC_WAIT),
        (FUSED_MATMUL, "async-collective-fusion.2", "convolution fusion", OpKind.COMPUTE),
        (FUSED_MATMUL, "async-collective-fusion.2", "", OpKind.COLLECTIVE),
        ("%while.3 = (f32[8]{0}) while((f32[8]{0}) %t)", "while.3", "while", OpKind.CONTAINER),
        ("", "while.3", "", OpKind.CONTAINER),
        ("", "all-gather.7", "", OpKind.COLLECTIVE),
        ("%ars = f32[8]{0} all-reduce-start(f32[8]{0} %p)", "ars", "all-reduce", OpKind.COLLECTIVE),
        ("%f = f32[8]{0} fusion(f32[8]{0} %p)", "f", "all-gather fusion", OpKind.COLLECTIVE),
        (
            "%async-collective-done = f32[8]{0} fusion(f32[8]{0} %p)",
            "async-collective-done",
            "",
            OpKind.COLLECTIVE,
        ),
        ("%i = (f32[8]{0}, token[]) infeed(token[] %t)", "i", "infeed", OpKind.INFEED_OUTFEED),
        ("", "", "", OpKind.COMPUTE),
        ("", "psum.14", "all-reduce", OpKind.COLLECTIVE),
        ("", "pure_callback.8", "custom-call xla_ffi_python_cpu_callback", OpKind.HOST_CALLBACK),
        (PYTHON, "custom-call.1", "custom-call", OpKind.HOST_CALLBACK),
        ("", "topk.1", "custom-call TopK", OpKind.COMPUTE),
    ],
)
def test_kind(long_name, short_name, category, kind):
    assert op_kind(long_name, short_name, category) == kind


def test_opcode_of_a_tuple_shaped_op():
    assert (
        opcode("%w = (f32[8]{0}, s32[]) while((f32[8]{0}, s32[]) %t), condition=%c, body=%b", "w") == "while"
    )


@pytest.mark.parametrize(
    "kind", ["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute"]
)
def test_collectives_by_any_form(kind):
    assert collective_kind(kind) == kind
    assert collective_kind(f"{kind}-start.3") == kind
    assert collective_kind(f"{kind} fusion") == kind


def test_words_that_only_resemble_collectives():
    assert collective_kind("reduce") is None
    assert collective_kind("gather") is None
    assert collective_kind("reduce-window") is None
