"""What commands that would answer more name: the program, as it was started, and its run folder."""

from __future__ import annotations

import shlex
from typing import Any

from tpuprof.chips import CHIPS, chip_of
from tpuprof.report.schema import Report
from tpuprof.run_folder import USUAL_WARMUP

# Variables by which a program has several CPU devices, and what their values then hold.
_DEVICES = {"CPU_NUM_DEVICES": "", "XLA_FLAGS": "xla_force_host_platform_device_count"}
# The chip of which preflight has a slice compiled for a program that ran on another device.
_OTHERWISE = "v5e"


def values_of(report: Report) -> dict[str, str]:
    """Variables, program, script, its arguments, options of the capture and TPU slice, each quoted for a shell."""
    run = report.environment.get("run")
    argv = run.get("command_line") if isinstance(run, dict) else None
    argv = [str(each) for each in argv] if isinstance(argv, list) and argv else ["train.py"]
    launched = [str(each) for each in capture_of(report).get("launched") or ()]
    # What was run may start the program as a module, with other variables, or in several processes.
    program = shlex.join(launched) if launched else f"python {shlex.join(argv)}"
    module = _module(argv[0], launched)
    return {
        "variables": _variables(report, launched),
        "program": program,
        "before": shlex.quote(program),
        "script": f"-m {shlex.quote(module)}" if module else shlex.quote(argv[0]),
        "arguments": f" -- {shlex.join(argv[1:])}" if argv[1:] else "",
        "out": _out(report),
        # The folder is the program's own where tpuprof captured into it.
        "into": _out(report) if capture_of(report) else "",
        "warmup": _warmup(report),
        "slice": _slice(report),
    }


def _variables(report: Report, launched: list[str]) -> str:
    """Those that gave the program several CPU devices: without them it is another program. Empty without any."""
    run = report.environment.get("run")
    noted = run.get("environment") if isinstance(run, dict) else None
    found = {name: str(noted.get(name) or "") for name in _DEVICES} if isinstance(noted, dict) else {}
    named = [
        f"{name}={shlex.quote(value)} "
        for name, value in found.items()
        if _DEVICES[name] in value and value and not any(each.startswith(f"{name}=") for each in launched)
    ]
    return "".join(named)


def _warmup(report: Report) -> str:
    """The option that has the same part of training captured again; empty where the usual number of steps has.

    A program that captures itself, by `tpuprof.profile`, says in its own code when that begins.
    """
    capture = capture_of(report)
    noted = capture.get("warmup") if capture.get("launched") else None
    return f" --warmup {noted}" if isinstance(noted, int) and noted != USUAL_WARMUP else ""


def capture_of(report: Report) -> dict[str, Any]:
    """What the run folder notes of the capture; empty where it notes nothing."""
    run = report.environment.get("run")
    capture = run.get("capture") if isinstance(run, dict) else None
    return capture if isinstance(capture, dict) else {}


def _module(script: str, launched: list[str]) -> str:
    """The module that Python was started with (`-m`), where it is that script; empty for other starts.

    A launcher is a module as well (`python -m torch.distributed.run train.py`), and what trains is another file.
    """
    if "-m" not in launched[:-1]:
        return ""
    module = launched[launched.index("-m") + 1]
    path = module.replace(".", "/")
    return module if script.endswith((f"/{path}.py", f"/{path}/__main__.py")) else ""


def _out(report: Report) -> str:
    """The option that keeps an answer with the run; empty where the profile lies in no run folder."""
    files = report.source.get("files") or [""]
    folder, plugins, _ = str(files[0]).partition("/plugins/profile/")
    return f" -o {shlex.quote(folder)}" if plugins else ""


def _slice(report: Report) -> str:
    """The smallest slice that the run fits on, as preflight calls it, also where it ran on CPU devices.

    One chip where it is of a TPU for which preflight has no compiler.
    """
    kind = str(report.environment.get("device_type") or "")
    count = int(report.environment.get("device_count") or 1)
    chip = CHIPS[_OTHERWISE] if kind == "CPU" else chip_of(kind)
    return chip.slice_of(count) if chip is not None and chip.compiled else f"{_OTHERWISE}-1"
