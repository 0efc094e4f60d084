"""Names of the events that a capture by tpuprof writes into the trace, for those who write them and those who read.

The vocabularies of frameworks (`vocabulary/*.toml`) name them as well: a test checks that they name no other.
"""

from __future__ import annotations

import re

PREFIX = "tpuprof."
# A call of the program that cuts the graph, a read of a value from the device, a copy to the device.
GRAPH_CUT, HOST_READ, UPLOAD = "tpuprof.graph_cut", "tpuprof.host_read", "tpuprof.upload"
# Methods of a tensor that wait for its value; the `call` of most reads.
READ_METHODS = (
    *("item", "tolist", "numpy", "cpu"),
    *("__bool__", "__int__", "__float__", "__index__", "__format__", "__repr__"),
)
# The `call` of a graph cut that waits for the device, and of all waits that read nothing.
BLOCKING_SYNC = "sync(wait=True)"
WAITS_ALONE = frozenset(["wait_device_ops", "rendezvous", "synchronize", "block_until_ready", BLOCKING_SYNC])
# Functions of Python's `threading` in which a thread waits for the end of another: a sampler and samples know them.
THREAD_JOINS = ("join", "_wait_for_tstate_lock", "_shutdown", "_join_os_thread")
# A training step. XProf takes a root event for one if its name begins with "train".
STEP = "train_step"
OPTIMIZER_STEP = "tpuprof.optimizer_step"
# The next batch of a loader; a checkpoint that is written or read; a garbage collection; time of tpuprof itself.
NEXT_BATCH, CHECKPOINT = "tpuprof.dataloader.next", "tpuprof.checkpoint"
# A thread of a loader has worker processes started, which it does again for each epoch unless they persist.
NEW_WORKERS = "tpuprof.dataloader.workers"
# A stat of the second part of an event that a step's end cut in two: a batch that is taken as the step ends, say.
GOES_ON = "goes_on"
# Who fills the queue from which a batch comes: threads of this process, or worker processes. A stat of its event.
TAKEN_FROM, FROM_THREADS, FROM_PROCESSES = "taken_from", "queue of threads", "queue of processes"
# Written by native code (`_gc_events.pyx`), with this name as text there.
COLLECTION = "tpuprof.gc"
OVERHEAD = "tpuprof.overhead"
# The body of a scan that is traced.
SCAN_TRACE = "tpuprof.scan_trace"
# A stack of the training thread, and that of the thread that held Python's lock, which samples name by its number.
SAMPLE, HOLDER = "tpuprof.sample", "tpuprof.holder"
# What JAX compiled, with its frames, and why its cache had no entry.
COMPILED, CACHE_MISS = "tpuprof.compiled", "tpuprof.cache_miss"
# JAX's files in which it lowers and compiles: they are on a stack only then.
JAX_COMPILES = re.compile(r"[/\\]jax[/\\]_src[/\\](?:compiler|interpreters[/\\]mlir)\.py\b")
# What a look at the training thread after a recording by the clock saw: work, a wait for the device, a compile.
LOOK_WORKS, LOOK_WAITS, LOOK_COMPILES = 0, 1, 2
# In a sample's stack, what follows the name that a loop set last before it jumped back: the jump has the name's place.
SET_LAST = " = …"
# There, what Python calls code that has no name of its own.
NAMELESS = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<lambda>")
# Those of them that other functions than the one they stand in may call.
CALLED_BY_ANYONE = ("<genexpr>", "<lambda>")
# How the expression begins of a line that runs a text by `exec` or `eval`: with the line in that text.
_EXECUTED = re.compile(r"line \d+ of ")
# How the file of a notebook's cell begins, where IPython gives it none of its own (`<ipython-input-3-0a1b2c>`).
CELL = "<ipython-input-"


# Parts of the paths of our own instrumentation, and of libraries, Python's own among them.
INSTRUMENTATION = ("/tpuprof/instrument/", "/tpuprof/capture/")
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3.", *INSTRUMENTATION)


def is_users_file(path: str) -> bool:
    """Whether a program names a file of the user's own: no library's, none of ours, and not generated."""
    return bool(path) and not is_generated(path) and not any(each in path for each in _LIBRARIES)


def is_generated(path: str) -> bool:
    """Whether code has no file and is no cell of a notebook: `<string>`, `<frozen importlib._bootstrap>`."""
    return path.startswith("<") and not path.startswith(CELL)


def executed(line: int) -> str:
    """How the expression begins of a line that runs a text, which is at that line of it."""
    return f"line {line} of "


def line_executed(call: str) -> str:
    """How an expression begins that runs a text; empty for others."""
    found = _EXECUTED.match(call)
    return found.group() if found else ""
