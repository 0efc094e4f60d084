"""A torch_xla build with the old C++ ABI traces more slowly.

## What it detects

torch_xla up to 2.6 built with the pre-C++11 ABI, in a run whose tracing is exposed.

## Why it costs time

The same code traces faster with the C++11 ABI: the 2.6 release notes report about 20 % better goodput for a
tracing-bound model. Later releases have the C++11 ABI only.

## Evidence

The version, the ABI it was built with, and the exposed tracing of a typical step.

## How to fix

Install the C++11 ABI wheel of your release, or torch_xla 2.7 or later.

## Limits and false positives

The price is the release notes' figure, not a measurement of this run.

## References

- https://github.com/pytorch/xla/releases/tag/v2.6.0
"""

from __future__ import annotations

from tpuprof.report.schema import Evidence, Savings
from tpuprof.rules.base import Outcome, Price, failed, not_applicable, passed, rule
from tpuprof.rules.thresholds import CXX11_ABI_GAIN, LAST_WITH_OLD_ABI, TRACING_FROM_SHARE
from tpuprof.signals import Signals, Unavailable


@rule(
    about="C++ ABI of torch_xla",
    good="The C++ ABI of torch_xla costs nothing here",
    bad="torch_xla has the old C++ ABI, which traces more slowly",
    torch_only=True,
    reads=("step_ms", "typical_tracing_ms", "typical_ms", "info", "torch_xla_version"),
)
def check(signals: Signals) -> Outcome:
    """Fail for an old ABI where tracing is exposed."""
    version = signals.torch_xla_version
    if version > LAST_WITH_OLD_ABI:
        return not_applicable(f"torch_xla {version[0]}.{version[1]} is built with the C++11 ABI only")
    abi = signals.info.get("cxx11_abi")
    if abi is None:
        raise Unavailable("run.json does not say which C++ ABI torch was built with")
    share = signals.typical_tracing_ms / signals.typical_ms
    evidence = [
        Evidence(f"torch_xla {version[0]}.{version[1]}, C++11 ABI: {'yes' if abi else 'no'}"),
        Evidence("exposed tracing, share of a typical step", share, "share"),
    ]
    if abi or share < TRACING_FROM_SHARE:
        return passed(evidence)
    gain = CXX11_ABI_GAIN / (1 + CXX11_ABI_GAIN)
    most = min(gain, share) * signals.step_ms
    return failed(
        min(gain, share), evidence, price=Price(savings=Savings(0.0, most, "bound")), confidence="low"
    )
