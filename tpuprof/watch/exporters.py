"""Hands what is known of a process to Prometheus, to an OTLP collector and to TensorBoard, where these are asked for.

Names are those of Google's SDK where the meaning is the same (`step_time`, `tpu_duty_cycle`), else they begin with
`tpuprof_`. What is unknown is left out: no metric stands at 0 for want of a measurement.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tpuprof.watch.options import WatchOptions

_OTLP_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
# Ports after the first that are tried, for the other processes of a host (count).
_MORE_PORTS = 16
# How often metrics are pushed (ms).
_PUSH_MS = 15_000


class Metric(NamedTuple):
    """One metric: its name, kind (`gauge` or `counter`), unit, help, and how its value follows from the status."""

    name: str
    kind: str
    unit: str
    help: str
    fact: str


METRICS = (
    Metric("step_time", "gauge", "s", "Median time per step (s)", "median_step_seconds"),
    Metric("tpuprof_last_step_seconds", "gauge", "s", "Time of the last step (s)", "last_step_seconds"),
    Metric(
        "tpuprof_own_work_seconds",
        "gauge",
        "s",
        "Time per step without waits for the device (s)",
        "own_work_seconds",
    ),
    Metric("tpuprof_step", "gauge", "1", "Number of the last step", "step"),
    Metric("tpuprof_steps", "counter", "1", "Steps of this attempt", "steps"),
    Metric("tpuprof_compiles", "counter", "1", "Graphs compiled in steps", "compiles"),
    Metric("tpuprof_anomalies", "counter", "1", "Anomalies found", "anomalies"),
    Metric(
        "tpuprof_samples_per_second", "gauge", "1", "Samples per second of this process", "samples_per_second"
    ),
    Metric("tpuprof_host_memory_bytes", "gauge", "By", "Memory of this process", "host_bytes"),
    Metric("tpuprof_device_memory_bytes", "gauge", "By", "Memory in use on the first device", "device_bytes"),
    Metric("tpu_duty_cycle", "gauge", "%", "Time in which the chips were busy (%)", "tpu_duty_cycle"),
    Metric(
        "tpu_tensorcore_utilization",
        "gauge",
        "%",
        "Use of the tensor cores (%)",
        "tpu_tensorcore_utilization",
    ),
    Metric("hbm_utilization", "gauge", "%", "Memory of the chips in use (%)", "hbm_utilization"),
)
# A counter by part, from the status's `seconds`.
PART_SECONDS = Metric("tpuprof_part_seconds", "counter", "s", "Time in steps by part (s)", "seconds")


class Exporter(Protocol):
    """Takes the status once per second."""

    def update(self, facts: dict[str, Any]) -> None:
        """Remember or write these facts."""

    def stop(self) -> None:
        """Write what is left, and end."""


def values(facts: dict[str, Any]) -> Iterator[tuple[Metric, float, str]]:
    """(metric, value, part) for all that is known; the part is empty but for `PART_SECONDS`."""
    for metric in METRICS:
        value = facts.get(metric.fact)
        if isinstance(value, (int, float)):
            yield metric, float(value), ""
    for part, seconds in (facts.get(PART_SECONDS.fact) or {}).items():
        yield PART_SECONDS, float(seconds), str(part)


class PrometheusExporter:
    """Serves the newest facts over HTTP. Raises `OSError` where no port is free, `ImportError` without the client."""

    def __init__(self, host: str, port: int, labels: dict[str, str]) -> None:
        from prometheus_client import CollectorRegistry, start_http_server

        self._facts: dict[str, Any] = {}
        self._labels = labels
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        for at in range(_MORE_PORTS if port else 1):
            try:
                self._server, self._thread = start_http_server(port + at, host, registry)
                break
            except OSError:
                if at == _MORE_PORTS - 1 or not port:
                    raise
        self.port = int(self._server.server_port)

    def collect(self) -> Iterable[Any]:
        """Called by the client for each request."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        families: dict[str, Any] = {}
        for metric, value, part in values(self._facts):
            family = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            names = [*self._labels, *(["part"] if part else [])]
            if metric.name not in families:
                families[metric.name] = family(metric.name, metric.help, labels=names)
            families[metric.name].add_metric([*self._labels.values(), *([part] if part else [])], value)
        return list(families.values())

    def update(self, facts: dict[str, Any]) -> None:
        """Serve these from now on."""
        self._facts = facts

    def stop(self) -> None:
        """Close the port."""
        self._server.shutdown()
        self._server.server_close()


class OtlpExporter:
    """Pushes to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names, by the OpenTelemetry SDK."""

    def __init__(self, labels: dict[str, str]) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.metrics import CallbackOptions, Observation
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource

        self._facts: dict[str, Any] = {}
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(), export_interval_millis=_PUSH_MS)
        resource = Resource.create(
            {"service.name": "tpuprof", **{f"tpuprof.{key}": text for key, text in labels.items()}}
        )
        self._provider = MeterProvider([reader], resource, shutdown_on_exit=False)
        meter = self._provider.get_meter("tpuprof")
        for metric in (*METRICS, PART_SECONDS):

            def observe(_options: CallbackOptions, metric: Metric = metric) -> list[Observation]:
                found = [each for each in values(self._facts) if each[0] is metric]
                return [Observation(value, {"part": part} if part else {}) for _, value, part in found]

            counts = metric.kind == "counter"
            create = meter.create_observable_counter if counts else meter.create_observable_gauge
            create(metric.name, [observe], unit=metric.unit, description=metric.help)

    def update(self, facts: dict[str, Any]) -> None:
        """Push these next."""
        self._facts = facts

    def stop(self) -> None:
        """Push a last time."""
        self._provider.shutdown(timeout_millis=2000)


class TensorBoardExporter:
    """Writes scalars by step with TensorBoard's own writer."""

    def __init__(self, folder: Path, name: str) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer = EventFileWriter(str(folder / "tensorboard" / name), filename_suffix=".tpuprof")
        self._step: int | None = None

    def update(self, facts: dict[str, Any]) -> None:
        """Write what is known at this step, once per step number."""
        from tensorboard.compat.proto import event_pb2, summary_pb2

        step = facts.get("step")
        if step is None or step == self._step:
            return
        self._step = step
        found = [
            summary_pb2.Summary.Value(
                tag=f"{metric.name}/{part}" if part else metric.name, simple_value=value
            )
            for metric, value, part in values(facts)
        ]
        event = event_pb2.Event(
            wall_time=facts["wall_seconds"], step=step, summary=summary_pb2.Summary(value=found)
        )
        self._writer.add_event(event)

    def stop(self) -> None:
        """Write the rest."""
        self._writer.close()


def exporters_of(options: WatchOptions, job: str, name: str, failed: Any) -> list[Exporter]:
    """The exporters that were asked for; `failed(which, error)` is called for each that cannot start."""
    labels = {"job_name": job, "host": name.rsplit("-", 2)[0]}
    wanted: list[tuple[str, Any]] = []
    if options.metrics_port is not None:
        port = options.metrics_port
        wanted.append(("prometheus", lambda: PrometheusExporter(options.metrics_host, port, labels)))
    if any(os.environ.get(each) for each in _OTLP_VARIABLES):
        wanted.append(("otlp", lambda: OtlpExporter(labels)))
    if options.tensorboard:
        wanted.append(("tensorboard", lambda: TensorBoardExporter(Path(options.folder), name)))
    found: list[Exporter] = []
    for which, make in wanted:
        try:
            found.append(make())
        except Exception as error:  # a missing package, a busy port, a client of another version
            failed(which, error)
    return found
