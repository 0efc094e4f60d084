"""Debugging tools that slow this process's Python, or each op: what is on when a recording begins."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tpuprof.instrument.state import pass_on

# Tools by the first part of the module that their hook is of; others are called by the hook and its module.
_TOOLS = {
    "_lsprof": "cProfile",
    "bdb": "pdb",
    "coverage": "coverage",
    "cProfile": "cProfile",
    "debugpy": "debugpy",
    "_pydevd_bundle": "a debugger (pydevd)",
    "pydevd": "a debugger (pydevd)",
    "profile": "profile",
    "trace": "trace",
    "yappi": "yappi",
}
# Settings of `jax.config` that check each op's result, run each op by itself, or trace and compile again in each step.
_JAX_SETTINGS = (
    "jax_debug_nans",
    "jax_debug_infs",
    "jax_disable_jit",
    "jax_enable_checks",
    "jax_check_tracer_leaks",
)
# Ids of tools that `sys.monitoring` knows (Python 3.12 and later).
_MONITORS = 6
# Values of PYTHONMALLOC that check each piece of memory.
_CHECKED = ("debug", "malloc_debug", "pymalloc_debug")


def python_tools() -> list[str]:
    """Names of the debugging tools that are on in this thread. Imports nothing, and changes nothing."""
    found: list[str] = []
    for look in (_memory_tools, _hooks, _monitors, _torch, _jax):
        try:
            found += look()
        except Exception as error:  # a setting that another version spells otherwise
            pass_on(error)
    return list(dict.fromkeys(found))


def _memory_tools() -> Iterator[str]:
    tracemalloc = sys.modules.get("tracemalloc")
    if tracemalloc is not None and tracemalloc.is_tracing():
        yield "tracemalloc"
    if _development_mode():
        yield "Python's development mode (-X dev)"
    elif os.environ.get("PYTHONMALLOC", "") in _CHECKED:
        yield "PYTHONMALLOC"


def _development_mode() -> bool:
    return sys.flags.dev_mode


def _hooks() -> Iterator[str]:
    """Functions that Python calls at each line or call: of this thread, and those that new threads get."""
    hooks: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("sys.settrace", sys.gettrace),
        ("sys.setprofile", sys.getprofile),
        ("threading.settrace", threading.gettrace),
        ("threading.setprofile", threading.getprofile),
    )
    for name, hook_of in hooks:
        hook = hook_of()
        if hook is not None:
            yield _tool(hook, name)


def _tool(hook: Any, name: str) -> str:
    module = getattr(hook, "__module__", None) or type(hook).__module__
    known = _TOOLS.get(str(module).partition(".")[0])
    return known or f"{name.partition('.')[2]} of {module}"


def _monitors() -> Iterator[str]:
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        return
    for tool in range(_MONITORS):
        name = monitoring.get_tool(tool)
        if name and monitoring.get_events(tool):
            yield str(name)


def _torch() -> Iterator[str]:
    torch = sys.modules.get("torch")
    if torch is not None and torch.is_anomaly_enabled():
        yield "torch.autograd.set_detect_anomaly"


def _jax() -> Iterator[str]:
    jax = sys.modules.get("jax")
    if jax is None:
        return
    for name in _JAX_SETTINGS:
        if getattr(jax.config, name, False):
            yield name
