"""Writes a Report as TensorBoard scalars and text, without tensorflow.

Scalars, by step number: step time and each part of its breakdown, in milliseconds. Text: the verdict, with
the report's warnings. TensorBoard's own writer and protos are used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuprof.errors import Code, TpuprofError, writing
from tpuprof.units import NS_PER_S

if TYPE_CHECKING:
    from tpuprof.report.schema import Report

_SUFFIX = ".tpuprof"
_TEXT_PLUGIN = "text"
_STRING = 7  # DT_STRING of TensorFlow's type enumeration


def write_events(report: Report, folder: Path) -> Path:
    """Write an event file into a run folder, in place of an earlier one of ours; returns its path.

    Raises `TpuprofError` (`missing-extra`) without tensorboard, `output-failed` where the folder takes no file.
    """
    try:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError as error:
        raise TpuprofError(
            Code.MISSING_EXTRA,
            "TensorBoard is not installed.",
            'Install it with: pip install "tpuprof[tensorboard]".',
        ) from error
    with writing(folder):
        for old in folder.glob(f"events.out.tfevents.*{_SUFFIX}"):
            old.unlink()
        writer = EventFileWriter(str(folder), filename_suffix=_SUFFIX)
        for event in _events(report):
            writer.add_event(event)
        writer.close()
    return next(folder.glob(f"events.out.tfevents.*{_SUFFIX}"))


def _events(report: Report) -> list[Any]:
    from tensorboard.compat.proto import event_pb2, summary_pb2

    events = [event_pb2.Event(summary=_text("tpuprof/verdict", _verdict_text(report)), step=0)]
    first_host = report.steps.per_step[0].host if report.steps.per_step else ""
    for step in report.steps.per_step:
        host = "" if step.host == first_host else f"/{step.host}"
        values = {"tpuprof/step_time_ms": step.wall_ms}
        values |= {f"tpuprof_breakdown_ms/{name}": ms for name, ms in step.breakdown_ms.items()}
        summary = summary_pb2.Summary(
            value=[summary_pb2.Summary.Value(tag=tag + host, simple_value=ms) for tag, ms in values.items()]
        )
        events.append(event_pb2.Event(summary=summary, step=step.index, wall_time=step.start_ns / NS_PER_S))
    return events


def _verdict_text(report: Report) -> str:
    lines = [f"**{report.verdict.sentence}**", ""]
    lines += [
        f"- {name}: {part.ms_per_step:.3f} ms per step"
        for name, part in report.breakdown.items()
        if part.share
    ]
    lines += [f"- note: {warning}" for warning in report.warnings]
    return "\n".join(lines)


def _text(tag: str, text: str) -> Any:
    from tensorboard.compat.proto import summary_pb2, tensor_pb2, tensor_shape_pb2

    shape = tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=1)])
    metadata = summary_pb2.SummaryMetadata(
        plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name=_TEXT_PLUGIN)
    )
    tensor = tensor_pb2.TensorProto(dtype=_STRING, tensor_shape=shape, string_val=[text.encode("utf-8")])
    return summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=tag, metadata=metadata, tensor=tensor)])
