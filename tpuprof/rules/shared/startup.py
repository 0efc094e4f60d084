"""What the rules on start-up compiles share: how long they took, whether that matters, and what a fix saves."""

from __future__ import annotations

from tpuprof.report.schema import Evidence, Savings
from tpuprof.rules.base import Price
from tpuprof.rules.shared.preflight import compile_seconds_evidence
from tpuprof.rules.thresholds import (
    LAST_WITHOUT_CACHE_ON_TPU,
    SLOW_COMPILE_FROM_SECONDS,
    STARTUP_SPREAD_OVER_STEPS,
)
from tpuprof.signals import Signals, Unavailable
from tpuprof.units import MS_PER_S

OF_NO_USE_ON_CPU = (
    "torch_xla's CPU client fills the cache and cannot load from it: on CPU a cache saves nothing"
)
UNKNOWN_ON_GPU = "whether torch_xla can load from the cache on a GPU is unknown"


def compile_evidence(signals: Signals) -> list[Evidence]:
    """How many graphs were compiled before the capture, and how long those cuts took, with the longest's line."""
    predicted = compile_seconds_evidence(signals)
    if signals.predicted:
        return predicted
    return [
        Evidence("graphs compiled before the captured steps", signals.startup_compiles, "graphs"),
        Evidence(
            "time of the graph cuts that compiled them",
            signals.startup_compile_seconds,
            "s",
            source=signals.startup_compile_source,
        ),
        *predicted,
    ]


def slow_start(signals: Signals) -> bool:
    """Whether compiles before the capture took long enough to matter."""
    return signals.startup_compile_seconds >= SLOW_COMPILE_FROM_SECONDS


def at_stake(signals: Signals) -> float:
    """Start-up compiles as a share of a short run's time."""
    return share_of_short_run(signals.startup_compile_seconds, signals.step_ms)


def share_of_short_run(seconds: float, step_ms: float) -> float:
    """So many seconds of compiling as a share of a short run's time, whose steps take so long."""
    return seconds / (seconds + STARTUP_SPREAD_OVER_STEPS * step_ms / MS_PER_S)


def saved_at_start(signals: Signals, least: float, most: float, note: str = "") -> Price:
    """Those shares of the start-up compiles (s), also spread over the steps of a short run (ms per step)."""
    return saved_of(signals.startup_compile_seconds, least, most, note)


def saved_of(seconds: float, least: float, most: float, note: str = "") -> Price:
    """Those shares of so many seconds of compiling, once per run, and as ms per step of a short run."""
    per_step = seconds * MS_PER_S / STARTUP_SPREAD_OVER_STEPS
    return Price(
        savings=Savings(
            least * per_step,
            most * per_step,
            "bound",
            start_low_s=least * seconds,
            start_high_s=most * seconds,
            per="start",
            note=note,
        )
    )


def known_of_cache(signals: Signals) -> tuple[str, str]:
    """Why the release's persistent cache is of no use on the device, and what is doubtful of it; both may be empty."""
    if "jax" in signals.framework:
        return "", ""
    if signals.framework == "torch_tpu":
        return "", "TorchTPU's cache was tried on a CPU plugin, and on no device"
    if not signals.is_tpu:
        return "", UNKNOWN_ON_GPU if signals.device_type.startswith("GPU") else OF_NO_USE_ON_CPU
    try:
        major, minor = signals.torch_xla_version
    except Unavailable:
        return "", "whether this release of torch_xla can load from the cache on TPU is unknown"
    if (major, minor) <= LAST_WITHOUT_CACHE_ON_TPU:
        return (
            f"torch_xla {major}.{minor} cannot load from a persistent cache on TPU (pytorch/xla issue 9094)",
            "",
        )
    return "", f"whether torch_xla {major}.{minor} can load from the cache on TPU is unknown"


def cache_evidence(signals: Signals) -> list[Evidence]:
    """What is known against this release's persistent cache; nothing where release or device is unknown."""
    try:
        said = "".join(known_of_cache(signals))
    except Unavailable:
        return []
    return [Evidence(said)] if said else []
