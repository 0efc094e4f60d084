"""A debugging tool slows the host.

## What it detects

A tool that was left on in the training process: `tracemalloc`, coverage, cProfile or another profiler of Python, a
debugger, Python's development mode, autograd's anomaly detection, or JAX's settings that check each result.

## Why it costs time

Such a tool runs at each line, call or piece of memory, or checks the result of each op, so that all that the host does
takes longer. Autograd's anomaly detection reads a value for each gradient: PyTorch/XLA runs a graph for each such read,
which computes the step again from its start. `jax_debug_nans` and `jax_debug_infs` copy each result to the host and
check it there. The host waits for each.

## Evidence

The tools that were on when the capture began, and the time per step in which the device waits for what they may slow.
Of anomaly detection also how many values autograd's thread reads per step, and the device's work that is repeated for
them.

## How to fix

Train without the tool.

[memory] `tracemalloc.stop()` ends `tracemalloc`.

[command] Take it out of the command that starts the program: `coverage run`, `-m cProfile` or a debugger.

[checked] Leave `-X dev`, `PYTHONDEVMODE` and `PYTHONMALLOC` out of the command.

[hook] `sys.settrace(None)` and `sys.setprofile(None)` end what the program itself has set.

[anomaly] Use `torch.autograd.set_detect_anomaly(True)` while you look for a NaN, and no longer. It reads a value for
each gradient, and each such read runs a graph of its own, which computes the step again from its start: reads in the
backward pass and repeated work of the device come from it.

## How to fix in TorchTPU

Train without the tool: what it slows in eager mode is each op.

[memory] `tracemalloc.stop()` ends `tracemalloc`.

[command] Take it out of the command that starts the program: `coverage run`, `-m cProfile` or a debugger.

[checked] Leave `-X dev`, `PYTHONDEVMODE` and `PYTHONMALLOC` out of the command.

[hook] `sys.settrace(None)` and `sys.setprofile(None)` end what the program itself has set.

[anomaly] Use `torch.autograd.set_detect_anomaly(True)` while you look for a NaN, and no longer. It reads a value for
each gradient: reads in the backward pass come from it.

## How to fix in JAX

Train without the tool.

[memory] `tracemalloc.stop()` ends `tracemalloc`.

[command] Take it out of the command that starts the program: `coverage run`, `-m cProfile` or a debugger.

[checked] Leave `-X dev`, `PYTHONDEVMODE` and `PYTHONMALLOC` out of the command.

[hook] `sys.settrace(None)` and `sys.setprofile(None)` end what the program itself has set.

[setting] Such a setting of `jax.config` is also a variable of the same name in capitals (`JAX_DEBUG_NANS`): look for
both.

[leaks] `jax_check_tracer_leaks` has each call traced, and some of them compiled, again.

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
from tpuprof.model.host.reads import IMPLICIT_BACKWARD
from tpuprof.model.host.sample_events import BLOCKING
from tpuprof.model.python_tools import ANOMALY, said_of_tools
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, failed, passed, rule
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.units import PS_PER_MS

# What the host does that such a tool makes longer; of `host:` parts those that wait are left out.
_SLOWED = (part.TRACING, part.DISPATCH, part.HOST_OTHER, part.HOST_SYNC, part.INPUT_WAIT, part.UNKNOWN)
# Tools that check each result, and those of which any part of the step may be.
_CHECKS = (ANOMALY, "jax_debug_")
_ANY_PART = (*_CHECKS, "jax_")
# Which advice is for a tool, by what its name and a space begin with (`trace` is not `tracemalloc`); of others it is
# only said to train without them.
_CASES = {
    "memory": ("tracemalloc",),
    "command": ("coverage", "cProfile", "profile", "trace ", "yappi", "pdb", "debugpy", "a debugger"),
    "checked": ("Python's development mode", "PYTHONMALLOC"),
    "hook": ("settrace of", "setprofile of"),
    "anomaly": (ANOMALY,),
    "setting": ("jax_",),
    "leaks": ("jax_check_tracer_leaks",),
}
CHECKED = "; each result is checked, and the host waits for that"
_WAITS = tuple(part.HOST_PREFIX + each for each in BLOCKING)


@rule(
    about="debugging tools",
    good="No debugging tool slows the host",
    bad="A debugging tool slows the host",
    reads=("python_tools", "steps", "step_ms", "python_reads_if_seen", "read_graphs"),
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
    read = _read_in_backward(signals) if ANOMALY in tools else []
    if read:
        title += f": {read[0].value:.3g} reads per step"
    return failed(share, [*evidence, *read], title=title, reason=reason, cases=_cases(tools))


def _cases(tools: list[str]) -> frozenset[str]:
    """Which advice is for those tools."""
    return frozenset(
        case for case, names in _CASES.items() if any(f"{each} ".startswith(names) for each in tools)
    )


def _read_in_backward(signals: Signals) -> list[Evidence]:
    """What anomaly detection reads of a step, and the work of the device that is repeated for it; empty without reads.

    Without the tool autograd's thread reads where a gradient goes to the host, or has a size that the device finds.
    Such reads are counted as well, and are few beside one for each gradient.
    """
    rows = [row for row in signals.python_reads_if_seen if row.call == IMPLICIT_BACKWARD]
    if not rows:
        return []
    steps = len(signals.steps)
    found = [
        Evidence(
            "values that autograd's thread reads", sum(row.occurrences for row in rows) / steps, "per step"
        ),
        Evidence("blocked by these reads", sum(row.blocked_ms_per_step for row in rows), "ms per step"),
    ]
    again = sum(row.again_ps for row in signals.read_graphs if row.call == IMPLICIT_BACKWARD)
    if again:
        work = "device work in graphs of these reads that the step does again"
        found.append(Evidence(work, again / PS_PER_MS / steps, "ms per step"))
    return found


def _is_python(name: str) -> bool:
    return name.startswith((part.HOST_PREFIX, part.USER_PREFIX)) and name not in _WAITS
