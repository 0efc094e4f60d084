"""A garbage collection while frames of another thread are read would let that thread run, and the process die."""

import gc
import operator
import subprocess
import sys
from functools import partial

import pytest

from tpuprof.instrument.no_collections import without_collections

# Deep calls take and give back pieces of the thread's stack: frames that ended are then no memory of the process.
PROGRAM = """
import gc, sys, threading, time
from tpuprof.instrument import plain_wait
from tpuprof.instrument.host_sampler import waits
from tpuprof.instrument.stack_text import places_of_thread
from tpuprof.watch.stacks import all_stacks, innermost

def deep(n):
    return n if n == 0 else deep(n - 1) + 1

def works():
    k = 0
    while not ended:
        deep(k * 37 % 700)
        k += 1

def lets_go(phase, info):
    if threading.get_ident() == own:
        time.sleep(0.0003)

own, ended = threading.get_ident(), False
thread = threading.Thread(target=works, daemon=True)
thread.start()
gc.callbacks.append(lets_go)
gc.set_threshold(20)
wait = (plain_wait if sys.argv[1] == "plain" else waits).Wait()
read = {
    "look": lambda: wait.look(thread.ident, 64, -1, None, {}),
    "plain": lambda: wait.look(thread.ident, 64, -1, None, {}),
    "places": lambda: places_of_thread(thread.ident),
    "innermost": lambda: innermost(thread.ident),
    "all": all_stacks,
}[sys.argv[1]]
until = time.monotonic() + 3
while time.monotonic() < until:
    wait.wait(0.0002)
    assert read()
ended = True
thread.join()
print("collects" if gc.isenabled() else "does not collect")
"""


@pytest.mark.parametrize("reads", ["look", "plain", "places", "innermost", "all"])
def test_a_thread_that_is_looked_at_stays_where_it_is(reads):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, reads], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "collects\n"), done.stderr


def test_collections_are_off_meanwhile_and_then_as_before():
    assert without_collections(gc.isenabled) is False
    assert gc.isenabled()
    gc.disable()
    try:
        assert without_collections(gc.isenabled) is False
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_they_are_on_again_where_the_thread_has_ended():
    with pytest.raises(KeyError):
        without_collections(partial(operator.getitem, {}, "ended"))
    assert gc.isenabled()
