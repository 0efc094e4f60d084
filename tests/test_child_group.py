"""How a child that leads a group is ended."""

import os
import subprocess
import sys
import threading
import time

from tpuprof.child_group import end_group

STARTS_ANOTHER = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


def started(code=STARTS_ANOTHER):
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)


def gone(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0] in "ZX"


def test_what_the_child_started_is_ended_too():
    with started() as child:
        other = int(child.stdout.readline())
        end_group(child)
    assert child.returncode == -9
    until = time.monotonic() + 10
    while os.path.exists(f"/proc/{other}") and not gone(other):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_wait_that_a_signal_broke_off_does_not_hold_up_the_end():
    """Ctrl-C inside of `Popen.wait` may leave its lock taken, as here: a second `wait` would never return."""
    child = started("import time; time.sleep(600)")
    child._waitpid_lock.acquire()
    ending = threading.Thread(target=end_group, args=(child,), daemon=True)
    ending.start()
    ending.join(10)
    assert not ending.is_alive()
    assert child.returncode == -9
    child.stdout.close()


def test_a_child_that_has_ended_keeps_its_status():
    with started("raise SystemExit(3)") as child:
        child.wait()
        end_group(child)
    assert child.returncode == 3


def test_a_status_that_somebody_took_is_unknown():
    with started("raise SystemExit(3)") as child:
        os.waitpid(child.pid, 0)
        end_group(child)
    assert child.returncode == -9
