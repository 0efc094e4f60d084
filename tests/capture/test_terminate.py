"""A program that is asked to end by SIGTERM ends, wherever it is, and what was captured is kept where that can be done."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from tpuprof.capture import terminate

native = pytest.mark.skipif(terminate.in_time is None, reason="the native module was not built here")

# A mutex that is locked twice: no signal interrupts that wait. CDLL lets go of Python's lock for it, PyDLL keeps it.
HANG = """
import ctypes, os, signal, sys, time
from tpuprof.capture import terminate

terminate.OVERDUE_S, terminate.LOST_S, terminate.CLOSING_S = 1, 3, 2

def hang(library, say=True):
    mutex = ctypes.create_string_buffer(64)
    library(None).pthread_mutex_lock(mutex)
    if say:
        print("hangs", flush=True)
    library(None).pthread_mutex_lock(mutex)

said = ["closed"]

def close():
    print(*said, flush=True)

"""


def ended(code):
    """What the program prints, its status, and how long it lives after the signal (s)."""
    with subprocess.Popen(
        [sys.executable, "-c", HANG + code], stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        try:
            assert process.stdout.readline() == "hangs\n"
            time.sleep(0.1)
            sent = time.monotonic()
            process.send_signal(signal.SIGTERM)
            rest, _ = process.communicate(timeout=60)
            return rest.split("\n")[:-1], process.returncode, time.monotonic() - sent
        finally:
            process.kill()


@native
def test_a_hang_in_native_code_ends_and_the_capture_is_kept():
    lines, status, _ = ended("terminate.close_on_terminate(close); hang(ctypes.CDLL)")
    assert (lines, status) == (["closed"], -signal.SIGTERM)


@native
def test_a_hang_that_keeps_pythons_lock_ends_too():
    lines, status, took = ended("terminate.close_on_terminate(close); hang(ctypes.PyDLL)")
    assert (lines, status) == ([], -signal.SIGTERM)
    assert took > 2


@native
def test_a_close_that_hangs_does_not_keep_the_program():
    code = "terminate.close_on_terminate(lambda: (close(), time.sleep(600))); hang(ctypes.CDLL)"
    assert ended(code)[:2] == (["closed"], -signal.SIGTERM)


def test_a_program_that_runs_python_is_closed_at_once():
    """Native code shorter than `OVERDUE_S` is no hang: the handler runs in the main thread."""
    code = """
def close():
    print("closed by", threading.current_thread() is threading.main_thread(), flush=True)
import threading
terminate.close_on_terminate(close)
print("hangs", flush=True)
while True:
    time.sleep(0.01)
"""
    assert ended(code)[:2] == (["closed by True"], -signal.SIGTERM)


def test_a_program_that_handles_the_signal_itself_is_left_alone():
    code = """
def own(number, frame):
    print("own handler", flush=True)
    sys.exit(3)
terminate.close_on_terminate(close)
signal.signal(signal.SIGTERM, own)
print("hangs", flush=True)
time.sleep(60)
"""
    assert ended(code)[:2] == (["own handler"], 3)


# Both run after the fork, before the parent's signal.
IN_C = pytest.param("ctypes.PyDLL(None).fork()", "hang(ctypes.PyDLL, say=False)", marks=native, id="in C")
IN_PYTHON = pytest.param("os.fork()", "terminate.forget(); time.sleep(60)", id="in Python")


@pytest.mark.parametrize(("fork", "child"), [IN_C, IN_PYTHON])
def test_a_forked_process_ends_as_it_would_alone(fork, child):
    """One that C forked runs no Python, and none of the threads: a handler of the parent's would swallow the signal."""
    code = f"""
terminate.close_on_terminate(close)
child = {fork}
if not child:
    {child}
time.sleep(0.5)
os.kill(child, signal.SIGTERM)
said.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print("hangs", flush=True)
time.sleep(60)
"""
    assert ended(code)[:2] == (["closed -15"], -signal.SIGTERM)


# Main goes on after `OVERDUE_S`, when another thread has begun to close, which takes another second.
GOES_ON = """
import threading

def close():
    if not said:
        return
    said.clear()
    time.sleep(1)
    print("closed by", threading.current_thread() is threading.main_thread(), flush=True)

terminate.close_on_terminate(close)
mutex = ctypes.create_string_buffer(64)
library = ctypes.CDLL(None)
library.pthread_mutex_lock(mutex)
threading.Timer(1.6, library.pthread_mutex_unlock, [mutex]).start()
print("hangs", flush=True)
library.pthread_mutex_lock(mutex)
terminate.close_at_exit(close)
print("went on", flush=True)
"""


@native
def test_the_end_of_the_program_waits_for_the_thread_that_closes():
    assert ended(GOES_ON)[:2] == (["closed by False"], -signal.SIGTERM)


def test_a_signal_while_the_end_of_the_program_closes_lets_it_keep_what_was_captured():
    code = """
def close():
    if said:
        print(*said, flush=True)
        said.clear()
        with terminate.end_after_writing():
            time.sleep(1)
        print("written", flush=True)
said[:] = ["hangs"]
terminate.close_on_terminate(close)
terminate.close_at_exit(close)
print("went on", flush=True)
"""
    assert ended(code)[:2] == (["written"], -signal.SIGTERM)


def test_after_the_close_at_the_end_the_signal_ends_the_program_at_once():
    code = """
terminate.close_on_terminate(lambda: None)
terminate.close_at_exit(lambda: None)
print("hangs", flush=True)
time.sleep(60)
"""
    lines, status, took = ended(code)
    assert (lines, status) == ([], -signal.SIGTERM)
    assert took < 30


@pytest.mark.parametrize("seconds", [0.5, pytest.param(5, marks=native)], ids=["soon", "after LOST_S"])
def test_a_signal_while_a_capture_is_written_in_mid_training_ends_the_program_after_it(seconds):
    code = f"""
terminate.CLOSING_S = 30
terminate.close_on_terminate(close)
with terminate.end_after_writing():
    print("hangs", flush=True)
    ends = time.monotonic() + {seconds}
    while time.monotonic() < ends:
        time.sleep(0.01)
    print("written", flush=True)
print("went on", flush=True)
"""
    assert ended(code)[:2] == (["written", "closed"], -signal.SIGTERM)


# libtpu handles the signal from the start of its runtime on, also where that finds no TPU.
BEGUN = """
import jax

try:
    jax.devices("tpu")
except RuntimeError:
    pass
if terminate.in_time is None or not terminate.in_time.handled_in("libtpu"):
    print("hangs", "no libtpu", sep="\\n", flush=True)
    sys.exit()
terminate.close_on_terminate(close)
"""


@native
@pytest.mark.parametrize(
    "lives", ["time.sleep(60)", "hang(ctypes.CDLL, say=False)"], ids=["in Python", "in native code"]
)
def test_libtpu_ends_the_process_once_the_capture_is_kept(lives, monkeypatch):
    """It wrote a trace of the stack and ended the process, whose capture was lost: on a TPU, each that was preempted."""
    pytest.importorskip("libtpu")
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.setenv("TPU_SKIP_MDS_QUERY", "1")
    lines, status, _ = ended(BEGUN + f'print("hangs", flush=True); {lives}')
    if lines == ["no libtpu"]:
        pytest.skip("libtpu does not handle SIGTERM here")
    assert (lines, status) == (["closed"], -signal.SIGTERM)


@native
def test_libtpu_handles_the_signal_again_once_the_capture_is_closed(monkeypatch):
    pytest.importorskip("libtpu")
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.setenv("TPU_SKIP_MDS_QUERY", "1")
    ours = "print(terminate.in_time.handled_in('libtpu'), flush=True)"
    end = "os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)"
    code = f"{HANG}{BEGUN}{ours}; terminate.close_at_exit(close); {ours}; {end}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    if "no libtpu" in done.stdout:
        pytest.skip("libtpu does not handle SIGTERM here")
    assert (done.stdout.split(), done.returncode) == (["False", "closed", "True"], -signal.SIGTERM)
