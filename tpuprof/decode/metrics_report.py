"""Reads torch_xla's metrics report (`met.metrics_report()`): metrics with count and sum, and counters."""

from __future__ import annotations

import re
from dataclasses import field

from tpuprof.records import record

_HEAD = re.compile(r"^(?P<kind>Metric|Counter): (?P<name>\S+)\s*$")
_FIELD = re.compile(r"^\s+(?P<name>TotalSamples|Accumulator|Value): (?P<value>.+?)\s*$")
_TIME = re.compile(r"(\d+(?:\.\d+)?)(d|h|ms|m|us|ns|s)")
_SECONDS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_BYTES = re.compile(r"^([\d.]+)([KMGT]?)B$")
_SCALE = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@record
class MetricsReport:
    """`metrics` has (samples, sum) by name, the sum in seconds, bytes or as it is; `counters` a number by name."""

    metrics: dict[str, tuple[int, float]] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)


def parse_metrics_report(text: str) -> MetricsReport:
    """Read a report, alone or inside other text; what is damaged is passed over."""
    found = MetricsReport()
    kind, name, samples = "", "", 0
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head:
            kind, name, samples = head["kind"], head["name"], 0
            continue
        each = _FIELD.match(line)
        if each is None or not name:
            continue
        if kind == "Counter" and each["name"] == "Value" and each["value"].isdigit():
            found.counters[name] = int(each["value"])
        elif each["name"] == "TotalSamples" and each["value"].isdigit():
            samples = int(each["value"])
        elif each["name"] == "Accumulator":
            total = _amount(each["value"])
            if total is not None:
                found.metrics[name] = (samples, total)
    return found


def _amount(text: str) -> float | None:
    """Seconds of a time (`01s234ms567.890us`), bytes of a size (`3.50MB`), else the number itself."""
    size = _BYTES.match(text)
    if size:
        return float(size.group(1)) * _SCALE[size.group(2)]
    parts = _TIME.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    try:
        return float(text)
    except ValueError:
        return None
