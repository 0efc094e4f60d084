"""Runs a training script on the CPU with as many virtual devices as the target has, and takes its graphs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpuprof.child_group import end_group
from tpuprof.errors import Code, TpuprofError
from tpuprof.preflight import barrier
from tpuprof.preflight.graphs import Graph, load_graph
from tpuprof.preflight.iteration import Search, read_events
from tpuprof.preflight.last_call import read_last_call
from tpuprof.preflight.manifest import DONE, MANIFEST
from tpuprof.preflight.options import read_notes
from tpuprof.preflight.places import TORCH_TPU, Place
from tpuprof.preflight.torch_tpu_programs import notes_of, to_hlo

HOOK = Path(__file__).parent / "hook"
TIME_LIMIT_S = 900.0
# Of what a script printed so much is looked at for its error (characters): a compiler's words may be long.
_TAIL = 20_000
# Experiment trackers that would otherwise wait for their server, or send made-up numbers to it.
_NO_UPLOADS = {
    "WANDB_MODE": "disabled",
    "COMET_MODE": "disabled",
    "NEPTUNE_MODE": "debug",
    "CLEARML_OFFLINE_MODE": "1",
}
# Libraries that read from their cache at once in place of trying the network first.
_OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
_POLL_S = 0.05
# What marks the folder of a project.
_PROJECT = (".git", "pyproject.toml", "setup.py")
_OLD_MOSAIC = (
    "its Pallas kernels were written for Mosaic version {0}, the newest that the installed libtpu reads; the installed "
    'jax writes a newer one, which this libtpu refuses on a TPU as well ("Unsupported version: expected <= {0}", '
    "pytorch/xla issue 9614): for the real run install a jax and a libtpu of one release"
)
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)\b(:|$)")
_NETWORK_WORDS = (
    "Network is unreachable", "name resolution", "Name or service not known", "keeps the network closed",
    "offline mode", "HF_HUB_OFFLINE", "LocalEntryNotFound", "outgoing traffic has been disabled",
)  # fmt: skip


@dataclass
class Trace:
    """The graphs a script would have run, and in what order (`search`). `reads` counts values that were made up.

    With `asked_for_chip` a kernel chose its tiles by the chip, so that another chip has another graph. `source` says
    which file the graphs are from where no script was run. `runs` holds the graphs of each event that is not one graph
    with the event's key. `notes` say how the script ran and what a prediction of its step leaves out.
    `offers` are the script's options and meshes (see `options`).
    """

    graphs: list[Graph]
    search: Search
    spmd: bool
    devices: int
    reads: int
    unmade_bytes: int
    versions: dict[str, str]
    seconds: float
    warnings: list[str] = field(default_factory=list)
    barrier: dict[str, Any] = field(default_factory=dict)
    asked_for_chip: bool = False
    source: str = ""
    runs: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    offers: list[dict[str, Any]] = field(default_factory=list)

    @property
    def sequence(self) -> list[str]:
        """Keys of all graphs in the order in which they would have run."""
        return self._graphs_of(each.key for each in self.search.events)

    def _graphs_of(self, events: Iterable[str]) -> list[str]:
        return [key for event in events for key in self.runs.get(event, [event])]

    @property
    def trains(self) -> bool:
        """Whether an update of weights was seen. Without one there is no training step to speak of."""
        return bool(self.search.updates)

    @property
    def iteration(self) -> list[tuple[Graph, int]]:
        """The graphs of one training iteration with how often each runs; without an update the largest graph."""
        keys = Counter(self._graphs_of(self.search.iteration()))
        if not keys:
            return [(max(self.graphs, key=lambda each: (len(each.proto), each.number)), 1)]
        return [(each, keys[each.key]) for each in self.graphs if each.key in keys]

    @property
    def steady(self) -> Graph:
        """The main graph of an iteration: the largest that updates weights."""
        updates = {each.key for each in self.search.updates}
        chosen = [each for each, _ in self.iteration]
        return max(
            chosen,
            key=lambda each: (
                each.key in updates or (bool(self.runs) and each.updates > 0),
                len(each.proto),
                each.number,
            ),
        )

    @property
    def is_steady(self) -> bool:
        """Whether one iteration came twice in a row."""
        return bool(self.search.period(patient=False))


@dataclass
class ScriptRun:
    """What to run: a script with arguments, extra environment, devices, whether big weights stay unmade.

    With `module` it is a module's name, run as by `python -m`. `chip_kind` is what Pallas kernels see that ask for
    it. With `network` the script may open connections to other machines; otherwise it cannot. `place` is the Python
    that runs it, where that is another environment's.
    """

    script: str
    arguments: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    devices: int = 1
    lazy: bool = True
    network: bool = False
    module: bool = False
    chip_kind: str = ""
    time_limit_s: float = TIME_LIMIT_S
    place: Place = field(default_factory=Place)


def trace_script(run: ScriptRun, folder: Path) -> Trace:
    """Run the script until its step repeats and read its graphs from `folder`, which it fills.

    What the script prints goes to stderr. Raises `TpuprofError` where it fails or runs no graph.
    """
    if not run.module and not Path(run.script).is_file():
        raise TpuprofError(
            Code.NOT_FOUND, f"There is no script {run.script!r}.", "Give the path of a Python file."
        )
    started = time.monotonic()
    log = folder / "script.log"
    code, timed_out = _execute(run, folder, log)
    manifest = folder / MANIFEST
    tail = log.read_text("utf-8", "replace")[-_TAIL:]
    last = read_last_call(folder)
    if not manifest.is_file():
        raise _no_graph(run, code, timed_out, tail, last=last)
    read = json.loads(manifest.read_text("utf-8"))
    if not read["graphs"] or (code and not timed_out and not read["done"]):
        raise _no_graph(run, code, timed_out, tail, len(read["graphs"]), last)
    trace = _read(folder, read, run, time.monotonic() - started)
    trace.offers = read_notes(folder)
    trace.warnings += _doubts(trace)
    if timed_out:
        trace.warnings.append(f"the script was stopped after {run.time_limit_s:.0f} s (--script-time-limit)")
    return trace


def _doubts(trace: Trace) -> list[str]:
    """What makes the choice of the step uncertain."""
    if not trace.trains:
        return [
            "no update of weights was seen: the graph below is the largest one, not a training step, and there is no "
            "verdict on training"
        ]
    updates = len(trace.search.updates)
    if not trace.is_steady:
        if updates == 1:
            return ["one step was seen: later steps may run another graph"]
        return [
            f"no iteration came twice in a row in {updates} updates of weights: {trace.search.why_unsteady()}"
        ]
    seen = frozenset().union(*(trace.search.events[each].optimizers for each in trace.search.chosen()))
    idle = len(trace.search.optimizers - seen)
    return [f"{idle} optimizer(s) with weights on the device never stepped in the iteration"] if idle else []


def script_environment(run: ScriptRun, folder: Path) -> dict[str, str]:
    """The script's whole environment: CPU devices, HLO metadata, and the hook first on PYTHONPATH."""
    env = {**os.environ, **run.environment}
    path = [str(HOOK), env.get("PYTHONPATH", "")]
    env.update(
        PJRT_DEVICE="CPU",
        CPU_NUM_DEVICES=str(run.devices),
        XLA_IR_DEBUG="1",
        XLA_HLO_DEBUG="1",
        PYTHONPATH=os.pathsep.join(part for part in path if part),
        TPUPROF_PREFLIGHT=str(folder),
        # The script's environment need not have this tpuprof: the hook finds it here.
        TPUPROF_PREFLIGHT_HOME=str(Path(__file__).resolve().parents[2]),
        TPUPROF_PREFLIGHT_FRAMEWORK=run.place.framework,
        TPUPROF_PREFLIGHT_PYTHON=sys.executable,
        TPUPROF_PREFLIGHT_LAZY="1" if run.lazy else "0",
        TPUPROF_PREFLIGHT_NETWORK="open" if run.network else "closed",
    )
    # jax, which scan and Pallas kernels use while tracing, must not look for a TPU either.
    env.setdefault("JAX_PLATFORMS", "cpu")
    env["TPUPROF_PREFLIGHT_CHIP_KIND"] = run.chip_kind
    env.pop("LIBTPU_INIT_ARGS", None)
    env.update(_NO_UPLOADS)
    env.update(run.place.variables())
    if not run.network:
        env.update(_OFFLINE)
    return env


def _execute(run: ScriptRun, folder: Path, log: Path) -> tuple[int, bool]:
    """Run the script behind the barrier: its exit status and whether the time limit ended it."""
    launcher = [sys.executable, "-I", "-S", str(Path(barrier.__file__)), str(folder)]
    command = [
        *launcher,
        "open" if run.network else "closed",
        run.place.python,
        *(["-m"] if run.module else []),
        run.script,
        *run.arguments,
    ]
    with log.open("wb") as out:
        child = subprocess.Popen(
            command, env=script_environment(run, folder), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip
        try:
            return _wait(child, run.time_limit_s, folder / DONE), False
        except subprocess.TimeoutExpired:
            return -1, True
        finally:
            end_group(child)


def _wait(child: subprocess.Popen[bytes], limit_s: float, done: Path) -> int:
    """Wait for the script's end, or until one of its processes has taken the graphs: then 0."""
    deadline = time.monotonic() + limit_s
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(_POLL_S)
        if done.exists():
            return 0
        if time.monotonic() > deadline:
            raise subprocess.TimeoutExpired(child.args, limit_s)


def project_of(run: ScriptRun) -> str:
    """The folder of the script's project: the nearest one above it that a project's file marks, else its own."""
    own = _module_home(run) if run.module else Path(run.script).resolve().parent
    return str(
        next((each for each in (own, *own.parents) if any((each / m).exists() for m in _PROJECT)), own)
    )


def _module_home(run: ScriptRun) -> Path:
    """The folder that Python finds a module's package in; the working folder where it is none of its path."""
    path = {**os.environ, **run.environment}.get("PYTHONPATH", "")
    top = run.script.partition(".")[0]
    for each in (Path.cwd(), *(Path(part) for part in path.split(os.pathsep) if part)):
        if (each / top).is_dir() or (each / f"{top}.py").is_file():
            return each.resolve()
    return Path.cwd()


def _read(folder: Path, manifest: dict[str, Any], run: ScriptRun, seconds: float) -> Trace:
    entries, project = manifest["graphs"], project_of(run)
    if run.place.framework == TORCH_TPU:
        entries = to_hlo(folder, entries)
    graphs = [load_graph(folder, entry, manifest["spmd"], project) for entry in entries]
    warnings = [*manifest["warnings"], *(text for graph in graphs for text in graph.warnings)]
    if manifest["kernels"]["mosaic"] is not None:
        warnings.append(_OLD_MOSAIC.format(manifest["kernels"]["mosaic"]))
    search = Search(read_events(manifest["events"]), frozenset(manifest["optimizers"]))
    trace = Trace(
        graphs, search, manifest["spmd"], manifest["devices"], manifest["reads"],
        manifest["unmade_bytes"], manifest["versions"], seconds, warnings,
        json.loads((folder / barrier.REPORT).read_text("utf-8")), manifest["kernels"]["asked_for_chip"],
        runs=manifest.get("runs", {}),
    )  # fmt: skip
    if run.place.framework == TORCH_TPU:
        trace.notes = notes_of(run.place, manifest, sum(count for _, count in trace.iteration))
    return trace


def _no_graph(
    run: ScriptRun, code: int, timed_out: bool, tail: str, graphs: int = 0, last: str = ""
) -> TpuprofError:
    if code == barrier.STATUS and "Traceback" not in tail:
        return TpuprofError(
            Code.PREFLIGHT_SCRIPT,
            f"{run.script} was not run: this system offers no way to keep its writes from your files.",
            "Preflight needs user namespaces or Landlock. Use another machine or container, or a copy of your files "
            f"and {barrier.VARIABLE}=none.",
        )
    if timed_out:
        return TpuprofError(
            Code.PREFLIGHT_SCRIPT,
            f"{run.script} was stopped after {run.time_limit_s:.0f} s without having run a step.",
            "Shorten what it does before its first step, or raise --script-time-limit.",
        )
    if code:
        if -code in (signal.SIGSEGV, signal.SIGABRT) and last:
            return TpuprofError(
                Code.PREFLIGHT_SCRIPT,
                f"{run.script} {_how_it_failed(code, graphs)}; its last call on the device was {last}.",
                "Where torch_xla computes that on the host, it needs values that do not exist: try another operator.",
            )
        unmade = "meta" in tail or "placeholder" in tail
        hint = "Run it once by itself to see."
        if unmade:
            hint = "It read data that was never made: try --real-weights."
        elif any(word in tail for word in _NETWORK_WORDS):
            hint = "Preflight closes the network. Download what it needs first, or use --network."
        elif "PermissionError" in tail or "Read-only file system" in tail:
            hint = "Preflight refuses writes here (see docs/preflight.md): give a folder below $TMPDIR to write to."
        message = f"{run.script} {_how_it_failed(code, graphs)}: {_last_line(tail).rstrip('.')}."
        return TpuprofError(Code.PREFLIGHT_SCRIPT, message, hint)
    if run.place.framework == TORCH_TPU:
        return TpuprofError(
            Code.PREFLIGHT_NO_GRAPH,
            f'{run.script} ended without running anything on the device "tpu".',
            "Give the script that trains, and move its model to torch.device('tpu').",
        )
    return TpuprofError(
        Code.PREFLIGHT_NO_GRAPH,
        f"{run.script} ended without running anything on an XLA device.",
        "Preflight sees torch_xla.sync(), xm.mark_step(), torch_xla.step() and torch_xla.compile(); give the script "
        "that calls them.",
    )


def _how_it_failed(code: int, graphs: int) -> str:
    when = f"after {graphs} graph(s), before its step was known" if graphs else "before its first step"
    if code >= 0:
        return f"failed {when}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    hints = {
        "SIGKILL": " (often: the machine has too little memory)", "SIGABRT": " (native code gave up)",
        "SIGSEGV": " (native code crashed)",
    }  # fmt: skip
    return f"was ended by signal {name}{hints.get(name, '')} {when}"


def _last_line(text: str) -> str:
    """The line that says what happened: of a traceback its exception, else the last one printed."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    raised = [line for line in lines if _EXCEPTION.match(line)]
    lines = raised or lines
    return lines[-1].strip()[:300] if lines else "no output"
