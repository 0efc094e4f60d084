"""Says why a program that ended left no capture: how it ended, and how far its processes came."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from tpuprof.capture import crumbs
from tpuprof.capture.command import isolating_python
from tpuprof.capture.launch import Ended
from tpuprof.capture.orders import Orders
from tpuprof.capture.together import AHEAD_SECONDS, PATIENCE_SECONDS
from tpuprof.errors import Code, TpuprofError
from tpuprof.run_folder import PROFILES
from tpuprof.units import counted

_TRACEBACK = b"Traceback (most recent call last):"
# Characters of an exception that are repeated: messages of the runtime can be pages.
_LONGEST = 200
# A shell adds this to the number of the signal that ended its command.
_SIGNALLED = 128
_OTHER_USERS = frozenset({"sudo", "su", "doas", "runuser"})
_OTHER_PLACES = frozenset({"docker", "podman", "kubectl", "ssh", "srun", "gcloud"})
_CLEARED = re.compile(r"^(-[a-z0]*i[a-z0]*|-|--ignore-environment)$")
# `env -u PYTHONPATH`, in one word or two, and `PYTHONPATH=src`.
_TAKEN_OUT = re.compile(r"^(-u|--unset=)?PYTHONPATH(=.*)?$")
_PATH_HINT = "Install tpuprof by pip where this Python looks for packages: the hook then needs no PYTHONPATH."
_FAILED_HINT = "See its own messages above; a capture needs a program that runs."
_LOST_HINT = (
    "Let the program end by itself: one that leaves by os._exit or is killed writes nothing at its end."
)
# Signals of a process that did something impossible. Native code did: the program's, a library's or tpuprof's.
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT})
_CRASHED_HINT = (
    "Run the program once without tpuprof. If it ends well then, please report this as a fault of tpuprof."
)


def explain(command: list[str], orders: Orders, ended: Ended) -> TpuprofError:
    """The error for a run that captured nothing."""
    code, far, hint = _how_far(command, orders, ended)
    if ended.alive:
        count = len(ended.alive)
        far = f"{far}; {count} process{'es' if count > 1 else ''} that it started still run{'' if count > 1 else 's'}"
        hint = "Start the training in the foreground, so that its end is the end of the command."
    if ended.status:
        code, far, hint = Code.CAPTURE_PROGRAM_FAILED, f"{how_it_ended(ended)}; {far}", _hint(ended, hint)
    old = " What is in this folder is older." if _has_older(Path(orders.run)) else ""
    return TpuprofError(code, f"{orders.run}: nothing was captured: {far}.{old}", hint)


def how_it_ended(ended: Ended) -> str:
    """One clause: the exit status, the signal by name, or the exception."""
    number = ended.signal or (ended.status - _SIGNALLED if ended.status > _SIGNALLED else 0)
    name = _signal_name(number)
    if name and ended.out_of_memory and number == signal.SIGKILL:
        return "the system killed the program (SIGKILL) because memory ran out"
    if ended.signal and name:
        return f"{name} ended the program"
    error = last_error(ended.stderr_tail)
    error = f" ({error})" if error else ""
    if name and not error:
        return f"the program ended with exit status {ended.status}, as after {name}"
    return f"the program failed with exit status {ended.status}{error}"


def _hint(ended: Ended, hint: str) -> str:
    """What to do about a program that failed; `hint` is what to do if it did not."""
    if (ended.signal or ended.status - _SIGNALLED) in _CRASHES:
        return _CRASHED_HINT
    return hint if hint == _LOST_HINT else _FAILED_HINT


def last_error(stderr: bytes) -> str:
    """The last line of the last traceback in a program's stderr, empty where there is none."""
    _, found, text = stderr.rpartition(_TRACEBACK)
    if not found:
        return ""
    for line in text.decode("utf-8", "replace").splitlines()[1:]:
        if line and not line[0].isspace() and not line.startswith("tpuprof: "):
            return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
    return ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def _how_far(command: list[str], orders: Orders, ended: Ended) -> tuple[Code, str, str]:
    processes = ended.processes
    steps = max((each.count(crumbs.STEPS) for each in processes), default=0)
    if not processes:
        return Code.CAPTURE_EMPTY, *_never_hooked(command)
    gone_wrong = _broke_off(processes) or _lost(processes, ended)
    if gone_wrong is not None:
        return Code.CAPTURE_FAILED, *gone_wrong
    if any(each.all(crumbs.BUSY) for each in processes):
        return (
            Code.CAPTURE_EMPTY,
            "the program's own profiler session was open when a recording was due, and a process has one at a time",
            "Leave the program's own profiler (start_trace, trace_detached) out, or end it earlier.",
        )
    if steps > orders.warmup and orders.members > 1:
        return (
            Code.CAPTURE_NEVER_STEADY,
            f"the program ended after {steps} training steps, before the {orders.members} hosts had agreed on one to "
            "begin at",
            f"Train for longer than {PATIENCE_SECONDS + AHEAD_SECONDS:.0f} s after it is steady: so long the others "
            "wait for a host that does not answer. With all hosts there five seconds are enough.",
        )
    calls = max((each.count(crumbs.COMPILED_CALLS) for each in processes), default=0)
    if steps or calls > orders.warmup:
        return _too_few(steps, calls, orders.warmup)
    return _no_steps(processes)


def _broke_off(processes: list[crumbs.Process]) -> tuple[str, str] | None:
    """What to say where recording failed; None where it did not."""
    failed = [text for each in processes for text in each.texts(crumbs.BROKE_OFF)]
    return (f"the recording failed ({failed[0]})", "Report this.") if failed else None


def _lost(processes: list[crumbs.Process], ended: Ended) -> tuple[str, str] | None:
    """What to say where steps were recorded and are lost; None where none were."""
    steps = max((each.count(crumbs.STEPS) for each in processes), default=0)
    if steps and any(each.all(crumbs.CAPTURED) for each in processes):
        return (
            "steps were recorded, but the recording was not written to its end",
            "See the program's own messages above, and capture again.",
        )
    if any(_left_recording(each) for each in processes if each.pid not in ended.alive):
        far = f" after at least {counted(steps, 'training step')}" if steps else ""
        return (
            f"the program left in the middle of a recording{far}, and what was recorded is lost",
            _LOST_HINT,
        )
    return None


def _left_recording(process: crumbs.Process) -> bool:
    """Whether a process was gone before Python could end it, and was recorded then."""
    return bool(process.count(crumbs.RECORDING)) and not process.all(crumbs.ENDED)


def _too_few(steps: int, calls: int, warmup: int) -> tuple[Code, str, str]:
    """What to say of so few steps, where torch.compile's functions ran so many graphs beside them."""
    if calls > steps + warmup:
        return (
            Code.CAPTURE_NO_STEPS,
            f"functions of torch.compile ran {calls} graphs, and {counted(steps, 'training step')} ended: a step "
            "that is compiled as a whole, with its update, cuts no graph",
            "Mark steps with tpuprof.step(i).",
        )
    return (
        Code.CAPTURE_NEVER_STEADY,
        f"the program ended after {counted(steps, 'training step')}, and a capture needs one more after it has begun, "
        f"which is after {warmup} or more",
        "Train for more steps, or wait for fewer with --warmup 0.",
    )


def _no_steps(processes: list[crumbs.Process]) -> tuple[Code, str, str]:
    imported = {name for each in processes for name in each.all(crumbs.IMPORTED)}
    if imported and any(each.all(crumbs.CAPTURED) for each in processes):
        return (
            Code.CAPTURE_NO_STEPS,
            f"{sorted(imported)[0]} was recorded by the clock, but the program ended before the recording was written",
            _LOST_HINT,
        )
    if "torch_xla" in imported and any(each.count(crumbs.GRAPHS) for each in processes):
        return (
            Code.CAPTURE_NO_STEPS,
            "graphs ran on the device, but no training step ended",
            "A step ends at a graph cut (torch_xla.sync), an optimizer's call or a tpuprof.step(i): check the loop. "
            "One that only reads values (inference, generation) needs a tpuprof.step(i) for each batch.",
        )
    failed = [text for each in processes for text in each.all(crumbs.FAILED)]
    if failed:
        return Code.CAPTURE_FAILED, f"the recorder could not be set up ({failed[0]})", "Report this."
    if "torch_xla" in imported:
        return (
            Code.CAPTURE_NO_STEPS,
            "torch_xla was imported, but ran no graph: the program ended without a training step",
            "Check that the model and its data are on the XLA device.",
        )
    if imported:
        return Code.CAPTURE_NO_STEPS, *_without_steps(processes, sorted(imported)[0])
    return _never_imported(len(processes))


def _without_steps(processes: list[crumbs.Process], framework: str) -> tuple[str, str]:
    """How far a program came that no step was seen of, where torch_xla is not what it trains with."""
    hint = "Mark steps with tpuprof.step(i), and train for more of them."
    if any(each.count(crumbs.GRAPHS) for each in processes):
        return (
            f"{framework} compiled programs, but no training step was seen, and the program ended before a time "
            "without a compile was long enough to record without steps",
            hint,
        )
    if any(each.all(crumbs.GRAPHS) for each in processes):
        return (
            f"{framework} was imported, but compiled no program and marked no step: nothing was trained",
            "Check that the training runs in this program and not in another one.",
        )
    return f"{framework} was imported, but no training step was seen before the program ended", hint


def _never_imported(processes: int) -> tuple[Code, str, str]:
    who = f"{processes} Python processes ran, and none" if processes > 1 else "the program never"
    return (
        Code.CAPTURE_EMPTY,
        f"{who} imported torch_xla, torch_tpu or jax",
        "Check that it trains on an XLA device.",
    )


def _never_hooked(command: list[str]) -> tuple[str, str]:
    """Why no Python process of the command saw the hook, as far as the command itself shows."""
    names = [Path(word).name for word in command]
    head = next((name for name in names if name in _OTHER_USERS | _OTHER_PLACES), "")
    if head in _OTHER_USERS:
        return (
            f"{head} runs the program as another user without the capture's environment",
            f"Run tpuprof as that user: {head} tpuprof capture -- ...",
        )
    if head in _OTHER_PLACES:
        return (
            f"{head} runs the program where the capture does not reach it",
            "Run tpuprof capture there, or start a profiler server and use --addr.",
        )
    if "env" in names and any(_CLEARED.match(word) for word in command):
        return "env clears the environment that carries the hook", "Leave out its -i."
    if any(_TAKEN_OUT.match(word) for word in command):
        return "the command changes PYTHONPATH, which carries the hook", _PATH_HINT
    if isolating_python(command):
        return "this Python is not to look at its environment", "Leave out -I, -E or -S."
    return (
        "no Python that can be hooked ran in it",
        "Put `tpuprof capture --` right before python. A script that sets PYTHONPATH, options such as -I, -E and -S, "
        "and a cleared environment keep the hook out where tpuprof was not installed by pip.",
    )


def _has_older(run: Path) -> bool:
    folder = run / PROFILES
    return folder.is_dir() and any(folder.iterdir())
