"""Follows a TorchTPU script while it runs on a CPU plugin, until its step is known. Runs inside the script's process.

Unlike a graph of torch_xla, a program of TorchTPU cannot be left out: an eager step is many of them, and what comes
next depends on what came before. So they run, on a CPU plugin. Between two calls of `optimizer.step()` lies one
interval: the programs that ran in it. The iteration is the shortest run of intervals that came twice in a row with
every optimizer in it.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import subprocess
import threading
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from tpuprof.preflight.iteration import Event, Search, event_entry
from tpuprof.preflight.manifest import DONE, write_manifest
from tpuprof.preflight.pjrt_taps import Taps
from tpuprof.preflight.step_window import Window
from tpuprof.preflight.torch_tpu_tensors import DEVICE, other_tensors, weights
from tpuprof.preflight.weights import device_optimizers, optimizer_number

# Programs run on threads of TorchTPU's. Where asking it to wait would change which ops it fuses, a step is over when
# nothing ran for so long (s), or at the latest after so long.
_REST_S, _LONGEST_S = 0.1, 120.0
# Looks at all weights of a script without an optimizer: each reads them.
_MOST_LOOKS = 8


@dataclass(frozen=True)
class Interval:
    """The runs from `first` up to `last`, and the optimizers that stepped at its end; whether weights changed in it."""

    first: int
    last: int
    optimizers: frozenset[int]
    update: bool = True


class Recorder:
    """What the script ran, interval by interval, and a manifest of it that is whole after each."""

    def __init__(self, folder: Path, taps: Taps) -> None:
        self.folder, self.taps, self.log = folder, taps, taps.log
        self.intervals: list[Interval] = []
        self.lock = threading.RLock()
        self.done = False
        self._stepped: set[int] = set()
        self._written = 0
        self._facts: dict[int, dict[str, Any]] = {}
        self._weights: dict[int, int] = {}
        self._trainers: set[int] = set()
        self._listening = self._over = False
        atexit.register(self.at_exit)

    def after_step(self, number: int) -> None:
        """An optimizer has stepped; `number` tells it from the others."""
        with self.lock:
            self._stepped.add(number)
            self._settle()
            self._close(True)

    def after_trainer(self, trainer: Any) -> None:
        """TorchTPU's own trainer has put a step's weights in place."""
        self._trainers.add(id(trainer))
        self.after_step(id(trainer))

    def before_backward(self) -> None:
        """A backward pass begins: in a script without an optimizer, weights were updated since the last one, or not."""
        with self.lock:
            if device_optimizers() or self._trainers or len(self.intervals) > _MOST_LOOKS:
                return
            self._settle()
            end = len(self.log.runs)
            before, self._weights = self._weights, self._look(weights())
            self._close(bool(before) and self._weights != before, end)

    def at_exit(self) -> None:
        """The script has ended by itself."""
        with self.lock:
            if not self._over:
                self._over = True
                self._finish()
                self.taps.release()

    def _close(self, update: bool, end: int | None = None) -> None:
        """End the interval here, where anything ran in it."""
        if not self._listening:
            # This one is called before the runtime is taken down, which registered itself when it began.
            self._listening = True
            atexit.register(self.at_exit)
        first = self.intervals[-1].last if self.intervals else 0
        last = len(self.log.runs) if end is None else end
        if last == first:
            return
        self.intervals.append(Interval(first, last, frozenset(self._stepped), update))
        self._stepped.clear()
        self._write()
        if self._search().finished() and self._finish():
            self.done = True
            self._write()
            (self.folder / DONE).touch()
            os._exit(0)

    def _search(self) -> Search:
        events = [Event(self._key(each), each.update, each.optimizers) for each in self.intervals]
        return Search(events, device_optimizers())

    def _key(self, interval: Interval) -> str:
        programs = [each.program for each in self.log.runs[interval.first : interval.last]]
        return hashlib.sha256(repr(programs).encode()).hexdigest()[:32]

    def _settle(self) -> None:
        """Wait until what the script asked for has run."""
        if not _defers():
            torch.accelerator.synchronize()
            return
        deadline, seen, since = time.monotonic() + _LONGEST_S, -1, time.monotonic()
        while time.monotonic() < deadline:
            now = len(self.log.runs)
            if now != seen or self.log.busy:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > _REST_S:
                return
            time.sleep(_REST_S / 10)

    def _look(self, tensors: list[tuple[str, torch.Tensor]]) -> dict[int, int]:
        """The buffer of each tensor by the tensor's id: the one that is read where its values are asked for."""
        found = {}
        for _, each in tensors:
            before = len(self.log.read)
            each.detach().cpu()
            read = [number for number in self.log.read[before:] if self._is(number, each)]
            if read:
                found[id(each)] = read[-1]
        return found

    def _is(self, number: int, tensor: torch.Tensor) -> bool:
        return self.log.buffers[number].shape == tuple(tensor.shape)

    def _finish(self) -> bool:
        """Give names and updates to the iteration's programs; whether it updates a weight."""
        places = self._search().period(patient=False) or range(len(self.intervals))[-1:]
        if not places:
            self._write()
            return False
        window = Window(self.log, self.intervals[places[0]].first, self.intervals[places[-1]].last)
        trained = weights()
        named = [*trained, *other_tensors()]
        buffers = self._look(named)
        window.name({buffers[id(each)]: name for name, each in reversed(named) if id(each) in buffers})
        updates = window.updates({buffers[id(each)] for _, each in trained if id(each) in buffers})
        changed = any(updates.values())
        if not changed:
            for place in places:
                self.intervals[place] = replace(self.intervals[place], update=False)
        self._facts = window.facts(updates)
        self._write()
        return changed

    def _write(self) -> None:
        for number, (form, code) in enumerate(self.log.programs[self._written :], self._written):
            (self.folder / _file(number, form)).write_bytes(code)
            self._written = number + 1
        counts = Counter(each.program for each in self.log.runs)
        keys = [hashlib.sha256(code).hexdigest()[:32] for _, code in self.log.programs[: self._written]]
        nothing = {"updates": 0, "resident": [], "parameter_names": [], "output_names": []}
        graphs = [
            {
                "number": number, "hash": keys[number], "kind": "program", "file": _file(number, form),
                "count": counts[number], "given": True, "stablehlo": True, "frames": [],
                **self._facts.get(number, nothing),
            }
            for number, (form, _) in enumerate(self.log.programs[: self._written]) if counts[number]
        ]  # fmt: skip
        search = self._search()
        runs = {
            self._key(each): [
                keys[run.program]
                for run in self.log.runs[each.first : each.last]
                if 0 <= run.program < len(keys)
            ]
            for each in self.intervals
        }
        manifest = {
            "graphs": graphs, "warnings": self._warnings(), "events": [event_entry(each) for each in search.events],
            "runs": runs, "optimizers": sorted(search.optimizers),
            "kernels": {"mosaic": None, "asked_for_chip": False}, "done": self.done, "spmd": False,
            "unmade_bytes": 0, "reads": 0, "devices": 1, "versions": _versions(), "mode": _mode(),
            "made_up": self.log.made_up,
        }  # fmt: skip
        write_manifest(self.folder, manifest)

    def _warnings(self) -> list[str]:
        found = []
        if self.log.made_up:
            found.append(
                f"{self.log.made_up} program(s) hold what a CPU cannot run (a TPU's kernel): their results were zeros "
                "here, so values are not the script's. For the slice they are compiled as they are"
            )
        unknown = sum(each.program < 0 for each in self.log.runs)
        if unknown:
            found.append(
                f"{unknown} runs were of programs that came from a cache of compiled ones: they are left out"
            )
        return found


def install(folder: str) -> None:
    """Bring the "tpu" device up on the CPU plugin, and follow optimizers, trainers and backward passes."""
    if os.environ.get("LOCAL_RANK", "0") != "0":
        return
    # Before TorchTPU asks the plugin for its functions.
    taps = Taps(os.environ["TPU_LIBRARY_PATH"], _stand_in)
    import torch_tpu  # noqa: F401  # the backend
    from torch_tpu import _loader

    # What an import does where a TPU is on the PCI bus; a CPU plugin is on none.
    _loader._init_device(DEVICE)
    _show_device()
    _leave_unpinned()
    _write_lines()
    recorder = Recorder(Path(folder), taps)
    register_optimizer_step_post_hook(
        lambda optimizer, _args, _options: recorder.after_step(optimizer_number(optimizer))
    )
    _follow_backward(recorder)
    _follow_trainer(recorder)


def _stand_in(code: bytes) -> bytes:
    """Code of a program like this one that gives zeros, from preflight's own Python; empty where it cannot say."""
    hook = ("PYTHONPATH", "TPU_LIBRARY_PATH", "TPUPROF_PREFLIGHT")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(hook)}
    environment["PYTHONPATH"] = os.environ["TPUPROF_PREFLIGHT_HOME"]
    done = subprocess.run(
        [os.environ["TPUPROF_PREFLIGHT_PYTHON"], "-m", "tpuprof.preflight.worker", "--stand-in"],
        input=code, capture_output=True, check=False, env=environment,
    )  # fmt: skip
    return done.stdout if not done.returncode else b""


def _show_device() -> None:
    """Let libraries that ask for an accelerator (transformers) see the one there is."""
    from torch_tpu._internal.utils import hardware

    hardware.get_tpu_device_count = lambda: 1


def _leave_unpinned() -> None:
    """Pinned memory is the device's to give out, and the CPU plugin has none."""
    torch.Tensor.pin_memory = lambda self, _device=None: self


def _write_lines() -> None:
    """Have programs hold the Python lines that they are from, as TORCH_TRACE does."""
    from torch_tpu._internal.compile import tpu_torch_compile

    tpu_torch_compile.push_enable_tracebacks(True)


def _follow_backward(recorder: Recorder) -> None:
    plain = torch.autograd.backward

    def backward(*args: Any, **options: Any) -> Any:
        recorder.before_backward()
        return plain(*args, **options)

    torch.autograd.backward = backward


def _follow_trainer(recorder: Recorder) -> None:
    """TorchTPU's SingleTraceTrainer has no optimizer of torch's."""
    try:
        from torch_tpu._internal.optimizers.single_trace_trainer import SingleTraceTrainer
    except ImportError:
        return
    plain = SingleTraceTrainer._update

    def update(self: Any, *args: Any) -> Any:
        result = plain(self, *args)
        recorder.after_trainer(self)
        return result

    SingleTraceTrainer._update = update


def _defers() -> bool:
    from torch_tpu._internal import execution_mode

    return bool(execution_mode.eager_mode.name == "DEFER_AND_FUSE")


def _mode() -> str:
    """`eager`, `fused` or `compiled`, by what the script uses."""
    from torch._dynamo.utils import counters

    if counters["stats"]["unique_graphs"]:
        return "compiled"
    return "fused" if _defers() else "eager"


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {"torch": str(torch.__version__), "torch_tpu": version("torch_tpu")}


def _file(number: int, form: str) -> str:
    return f"program-{number}.{form}"
