"""Reads a GPU's plane: kernels and copies on its streams, and the steps that the profiler has put on it.

Each line `Stream #N(...)` is a queue of the GPU; the plane's other lines say the same work again, by framework op or
by step. Kernels of XLA carry the HLO op and the program that they are of; those of NCCL, and others that work across
GPUs, are known by their names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tpuprof.decode.columns import NO_TEXT, Plane, TextColumn
from tpuprof.model.device.activity import DeviceActivity, OpEvents, OpNames, ProgramRuns, no_ops
from tpuprof.model.device.op_kind import OpKind, op_kind
from tpuprof.model.device.op_lines import op_lines
from tpuprof.model.device.step_numbers import step_numbers
from tpuprof.model.intervals import union
from tpuprof.model.timeline import Track

STREAM = "Stream #"
STEPS_LINE = "Steps"
COPY = "copy between host and GPU"
# NCCL's and RCCL's kernels: `ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)`, `ncclKernel_SendRecv`.
_NCCL = re.compile(
    r"^(?:void )?(?:nccl|rccl)\w*?_?(AllReduce|AllGather|ReduceScatter|AllToAll|Broadcast|Reduce|SendRecv)"
)
# Kernels that read the memory of other GPUs themselves: PyTorch's symmetric memory (`multimem_all_reduce_kernel`,
# `two_shot_all_reduce_kernel_inplace`), vLLM's `cross_device_reduce_1stage`, TensorRT-LLM's `oneShotAllReduceKernel`.
# Inductor names a kernel after the ops around it, also after a collective whose result it only reads.
_FUNCTION = re.compile(r"^(?:void )?(?:\(anonymous namespace\)::|\w+::)*(?!triton_)(\w+)")
_ACROSS = re.compile(
    r"(all_?reduce|cross_device_reduce|all_?gather|reduce_?scatter|all_?to_?all)", re.IGNORECASE
)
_CATEGORIES = {
    "allreduce": "all-reduce",
    "crossdevicereduce": "all-reduce",
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "broadcast": "collective-broadcast",
    "reduce": "all-reduce",
    "sendrecv": "collective-permute",
}
# Copies to and from the host; those within a GPU are its own work.
# XProf's names and torch.profiler's.
_HOST_COPIES = ("MemcpyH2D", "MemcpyD2H", "Memcpy HtoD", "Memcpy DtoH")


def is_stream(track: Track) -> bool:
    """Whether a line of a GPU's plane is a queue, and not a summary of queues."""
    return track.label.startswith(STREAM)


def read_gpu(plane: Plane, tracks: Sequence[Track], vendor: str) -> DeviceActivity | None:
    """The activity of one `/device:GPU:N` plane, None where it did no work."""
    streams = [track for track in tracks if is_stream(track) and len(track)]
    if not streams:
        return None
    names, events = _ops(plane, streams)
    none_names, none_events = no_ops()
    none = np.empty(0, np.int64)
    steps = next((track for track in tracks if track.label == STEPS_LINE), None)
    return DeviceActivity(
        name=plane.name,
        type=type_of(vendor),
        count=1,
        ops=names,
        op_events=events,
        async_ops=none_names,
        async_events=none_events,
        programs=ProgramRuns([], none, none, none),
        executing=union(events.start, events.end),
        step_start=steps.start if steps else none,
        step_end=steps.end if steps else none,
        step_number=step_numbers(steps) if steps else none,
        peak_hbm_bytes_per_s=_stated(plane, "memory_bandwidth"),
    )


def type_of(vendor: str) -> str:
    """What to call the device."""
    return f"GPU ({vendor})" if vendor else "GPU"


def _ops(plane: Plane, streams: list[Track]) -> tuple[OpNames, OpEvents]:
    """Kernels by the HLO op and program they are of, and else by their own names."""
    columns = ("hlo_op", "hlo_module", "tf_op")
    stats = [track.stats(*columns) for track in streams]
    texts = {
        name: _joined(
            [plane.stat_text(each, name, len(track)) for each, track in zip(stats, streams, strict=True)]
        )
        for name in columns
    }
    kernel = np.concatenate([track.name_row for track in streams])
    start = np.concatenate([track.start for track in streams])
    end = np.concatenate([track.end for track in streams])
    keys = np.stack([kernel, *(texts[name].codes.astype(np.int64) for name in columns)], axis=1)
    used, first, op = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    kernels = [plane.events.names[row] if row >= 0 else "" for row in used[:, 0].tolist()]
    hlo, program, scope = ([texts[name][row] for row in first.tolist()] for name in columns)
    categories = [_category(name, op_name) for name, op_name in zip(kernels, hlo, strict=True)]
    zeros = np.zeros(len(used), np.int64)
    order = np.argsort(start, kind="stable")
    called = [op_name or name for op_name, name in zip(hlo, kernels, strict=True)]
    names = OpNames(
        name=called,
        long_name=kernels,
        category=categories,
        kind=np.array([_kind(*each) for each in zip(kernels, hlo, categories, strict=True)], np.int64),
        program=program,
        source=[""] * len(used),
        scope=scope,
        flops=zeros,
        bytes=zeros.copy(),
        lines=op_lines(kernels, called, categories),
    )
    op = op.reshape(-1).astype(np.int64)
    return names, OpEvents(op[order], start[order], end[order], (end - start)[order])


def _across_gpus(kernel: str) -> str:
    """The kind of collective that a kernel is by its name, empty for another kernel."""
    found = _NCCL.match(kernel)
    if found is None:
        function = _FUNCTION.match(kernel)
        found = _ACROSS.search(function.group(1)) if function else None
    return _CATEGORIES[found.group(1).replace("_", "").lower()] if found else ""


def _category(kernel: str, op: str) -> str:
    collective = _across_gpus(kernel)
    if collective:
        return collective
    if kernel.startswith(_HOST_COPIES):
        return COPY
    if kernel.startswith("Memcpy"):
        return "copy"
    return "memset" if kernel.startswith("Memset") else "kernel of an HLO op" if op else "kernel"


def _kind(kernel: str, op: str, category: str) -> OpKind:
    if _across_gpus(kernel):
        return OpKind.COLLECTIVE
    if category == COPY:
        return OpKind.INFEED_OUTFEED
    kind = op_kind("", op, "") if op else OpKind.COMPUTE
    # A loop's or a call's own kernel is work; its body's kernels are events of their own and never inside it.
    return kind if kind is OpKind.COLLECTIVE else OpKind.COMPUTE


def _joined(columns: list[TextColumn]) -> TextColumn:
    """Several columns as one."""
    strings: dict[str, int] = {}
    codes = []
    for column in columns:
        table = np.array(
            [strings.setdefault(text, len(strings)) for text in column.strings] or [NO_TEXT], np.int32
        )
        codes.append(np.where(column.codes == NO_TEXT, NO_TEXT, table[np.maximum(column.codes, 0)]))
    return TextColumn(np.concatenate(codes).astype(np.int32), list(strings))


def _stated(plane: Plane, name: str) -> float | None:
    """A number that the plane states of itself, None where it states none."""
    try:
        return float(plane.own_stat(name) or 0.0) or None
    except ValueError:
        return None
