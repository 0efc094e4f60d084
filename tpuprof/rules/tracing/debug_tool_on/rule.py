"""A debugging tool slows the host.

## What it detects

A tool that was left on in the training process: `tracemalloc`, coverage, cProfile or another profiler of Python, a
debugger, Python's development mode, autograd's anomaly detection, or JAX's settings that check each result.

## Why it costs time

Such a tool runs at each line, call or piece of memory, or checks the result of each op, so that all that the host does
takes longer. Autograd's anomaly detection has the device check results, and `jax_debug_nans` and `jax_debug_infs`
copy each result to the host and check it there: the host waits for each.

## Evidence

The tools that were on when the capture began, and the time per step in which the device waits for what they may slow.

## How to fix

Train without the tool. `tracemalloc.stop()` ends the first, a command without `coverage run` or `-m cProfile` the
next; debuggers, `-X dev` and `PYTHONMALLOC=debug` belong to the command as well. `sys.settrace(None)` and
`sys.setprofile(None)` end what the program itself has set. Use `torch.autograd.set_detect_anomaly(True)` while you look
for a NaN, and no longer.

## How to fix in TorchTPU

Train without the tool, as with PyTorch/XLA: what it slows in eager mode is each op.

## How to fix in JAX

Train without the tool. `jax_debug_nans`, `jax_debug_infs`, `jax_disable_jit`, `jax_enable_checks` and
`jax_check_tracer_leaks` are settings of `jax.config`, and variables of the same names in capitals (`JAX_DEBUG_NANS`).
The last one has each call traced, and some of them compiled, again.

## Limits and false positives

How much time the tool takes is unknown: no step ran without it. tpuprof does not turn it off, which would change the
program. Tools of another thread, and native debuggers, are not seen. A tool that was turned on after the capture began
is not, either.

## References

- https://docs.python.org/3/library/tracemalloc.html
- https://docs.pytorch.org/docs/stable/autograd.html
- https://docs.jax.dev/en/latest/debugging/flags.html
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.model.host.sample_events import BLOCKING
from tpuprof.model.python_tools import said_of_tools
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, failed, passed, rule
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals

# What the host does that such a tool makes longer; of `host:` parts those that wait are left out.
_SLOWED = (part.TRACING, part.DISPATCH, part.HOST_OTHER, part.HOST_SYNC, part.INPUT_WAIT, part.UNKNOWN)
# Tools that check each result, and those of which any part of the step may be.
_CHECKS = ("torch.autograd.set_detect_anomaly", "jax_debug_")
_ANY_PART = (*_CHECKS, "jax_")
CHECKED = "; each result is checked, and the host waits for that"
_WAITS = tuple(part.HOST_PREFIX + each for each in BLOCKING)


@rule(
    about="debugging tools",
    good="No debugging tool slows the host",
    bad="A debugging tool slows the host",
    reads=("python_tools", "steps", "step_ms"),
)
def check(signals: Signals) -> Outcome:
    """Fail where a tool was on and the device waits for what it may slow. The share is what it can cost at most."""
    tools = signals.python_tools
    if not tools:
        return passed()
    parts = signals.steps.mean_parts()
    slowed = sum(ms for name, ms in parts.items() if name in _SLOWED or _is_python(name))
    checks = any(each.startswith(_CHECKS) for each in tools)
    share = 1.0 if any(each.startswith(_ANY_PART) for each in tools) else slowed / signals.step_ms
    evidence = [Evidence(f"{each} was on when the capture began") for each in tools]
    evidence.append(Evidence("time in which the device waits for what it may slow", slowed, "ms per step"))
    if share < FAILS_FROM_SHARE:
        return passed(evidence, title="A debugging tool was on, and the device hardly waits for the host")
    does = "slows the host" if len(tools) == 1 else "slow the host"
    title = f"{said_of_tools(tools)}, which {does}{CHECKED if checks else ''}"
    reason = (
        "it cannot be priced: no step ran without it. Prices of what the host does hold for a run with it"
    )
    return failed(share, evidence, title=title, reason=reason)


def _is_python(name: str) -> bool:
    return name.startswith((part.HOST_PREFIX, part.USER_PREFIX)) and name not in _WAITS
