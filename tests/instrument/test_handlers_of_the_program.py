"""What a signal handler of the program raises while our code runs reaches the program."""

import ast
import functools
import signal
from pathlib import Path

import pytest

import tpuprof
from tpuprof.instrument.state import STATE, from_signal_handler, note_failure, pass_on

PACKAGE = Path(tpuprof.__file__).parent


class AlarmError(Exception):
    pass


@pytest.fixture
def alarm():
    def handler(*_):
        raise AlarmError

    before = signal.signal(signal.SIGUSR1, handler)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def armed(monkeypatch):
    monkeypatch.setattr(STATE, "armed", True)
    monkeypatch.setattr(STATE, "notes", [])


def test_what_a_handler_of_the_program_raises_goes_on_to_it(alarm, armed):
    with pytest.raises(AlarmError):
        try:
            signal.raise_signal(signal.SIGUSR1)
        except Exception as error:
            note_failure("our work", error)
    assert STATE.armed and not STATE.notes


def test_an_error_of_ours_ends_with_us(alarm, armed):
    note_failure("our work", AlarmError("no handler raised it"))
    assert not STATE.armed
    assert STATE.notes == [
        "our work failed and instrumentation was switched off: AlarmError: no handler raised it"
    ]
    assert not from_signal_handler(ValueError())


def one_shot(number, _frame):
    signal.signal(number, signal.SIG_IGN)
    raise AlarmError


def one_shot_of_any(*given):
    signal.signal(given[0], signal.SIG_IGN)
    raise AlarmError


class Handler:
    def __call__(self, *_):
        raise AlarmError

    def method(self, *_):
        raise AlarmError

    def with_more(self, _more, *_):
        raise AlarmError


@pytest.mark.parametrize(
    "handler",
    [one_shot, one_shot_of_any, Handler(), Handler().method, functools.partial(Handler().with_more, 1)],
)
def test_every_kind_of_handler_is_recognised(handler):
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(AlarmError):
            try:
                signal.raise_signal(signal.SIGUSR1)
            except Exception as error:
                pass_on(error)
    finally:
        signal.signal(signal.SIGUSR1, before)


# Where errors are caught and not looked at: what does not run in the main thread of the program, or before its code.
ELSEWHERE = {
    "capture/at_start.py": "before the program's first line",
    "capture/hook/sitecustomize.py": "before the program's first line",
    "capture/hook/start.py": "before the program's first line",
    "capture/marker.py": "before the program's first line, and in the command",
    "capture/board.py:forget": "the command",
    "capture/by_clock.py": "the pacer's thread",
    "capture/checks.py": "the command",
    "capture/interrupt.py:keep_interrupt": "after the program's last line: it catches what it raises itself",
    "capture/launch.py": "the command",
    "capture/lookout.py": "the command",
    "capture/nothing.py": "the command",
    "capture/oom.py": "the command",
    "capture/remote.py": "the command",
    "capture/tpu_vm.py": "the command",
    "capture/validate.py": "the command",
    "instrument/awaited.py:_suspended": "the sampler's thread",
    "instrument/host_sampler.py:_run": "the sampler's thread",
    "instrument/source_lines.py": "the sampler's thread",
    "instrument/thread_frames.py": "one call of C code that the program's handlers cannot enter",
}
# Of the errors that these name, none is a program's way to say that time is up.
NEVER_RAISED = {
    "ImportError",
    "ModuleNotFoundError",
    "PackageNotFoundError",
    "FutureTimeoutError",
    "RpcError",
}


def catches():
    """(file, function, whether a handler's error gets through) of everything that catches an error."""
    for folder in ("capture", "instrument"):
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            name = str(path.relative_to(PACKAGE))
            for function, node in _with_function(ast.parse(path.read_text("utf-8")), ""):
                if isinstance(node, ast.ExceptHandler):
                    yield name, function, _lets_through(node)
                elif _drops_errors(node):
                    yield name, function, False


def _drops_errors(node):
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).endswith("suppress")
    return isinstance(node, ast.keyword) and node.arg == "ignore_errors"


def _with_function(tree, function):
    for node in ast.iter_child_nodes(tree):
        name = node.name if isinstance(node, ast.FunctionDef) else function
        yield name, node
        yield from _with_function(node, name)


def _lets_through(node):
    called = {
        ast.unparse(each.func).rpartition(".")[2] for each in ast.walk(node) if isinstance(each, ast.Call)
    }
    raises = any(isinstance(each, ast.Raise) for each in ast.walk(node))
    caught = {ast.unparse(each).rpartition(".")[2] for each in getattr(node.type, "elts", [node.type])}
    return raises or bool(called & {"pass_on", "note_failure", "_failed"}) or caught <= NEVER_RAISED


def test_whatever_catches_errors_in_the_programs_thread_passes_them_on():
    found = [(name, f"{name}:{function}") for name, function, through in catches() if not through]
    dropped = [place for name, place in found if not {name, place} & ELSEWHERE.keys()]
    assert not dropped, f"call `pass_on(error)` first in {dropped}, or say in ELSEWHERE where that runs"
    # None is listed for nothing.
    assert ELSEWHERE.keys() <= {each for pair in found for each in pair}
