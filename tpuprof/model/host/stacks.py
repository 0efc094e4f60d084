"""What a sampled Python stack says of the host: the call it is in, whose line that is, and what such a call does."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tpuprof.own_events import is_generated, line_executed
from tpuprof.records import record

SLEEP, IO, LOCK, FRAMEWORK, PLAIN = "sleep", "io", "lock", "framework", "plain"
# torch.compile, or JAX, makes a program.
COMPILING = "compile"
# Last names of calls that block, as in `time.sleep(1)` or `self.stream.flush()`.
_CALLS = {
    **dict.fromkeys(("sleep", "usleep", "nanosleep"), SLEEP),
    **dict.fromkeys(
        (
            *("write", "writelines", "flush", "fsync", "fdatasync", "read", "readline", "readlines"),
            *(
                "readinto",
                "open",
                "print",
                "close",
                "recv",
                "recv_into",
                "recvfrom",
                "send",
                "sendall",
                "sendto",
            ),
            *("connect", "accept", "urlopen", "getresponse", "sendfile", "copyfile", "copyfileobj"),
            *("rename", "unlink", "truncate", "do_handshake", "getaddrinfo", "write_bytes", "write_text"),
            *("read_bytes", "read_text", "tofile", "fromfile"),
        ),
        IO,
    ),
    **dict.fromkeys(
        (
            *("acquire", "wait", "join", "result", "communicate", "poll", "select", "waitpid", "wait_for"),
            *("get", "put", "__enter__", "as_completed", "run_until_complete", "system", "check_call"),
            *("gather", "to_thread", "run_in_executor"),
        ),
        LOCK,
    ),
}
# Of these names, methods of dicts, strings and tensors have some too: they wait for nobody.
_WAITS_BY_ARGUMENT = frozenset({"get", "join"})
# Arguments of a call that waits: none, whether to wait, or how long.
_ARGUMENTS_OF_A_WAIT = re.compile(r"\s*(?:$|(?:True|False|None)\b)|.*\b(?:timeout|block)\b", re.DOTALL)
# What a call of `select` that waits is a method of.
_SELECTS = re.compile(r"(?:^|[^.\w])select$|sel\w*\.select$", re.IGNORECASE)
_WITH = "with "
_NAME = re.compile(r"([A-Za-z_]\w*)\s*$")
# Folders of the frameworks that trace, and what in them does not.
_FRAMEWORKS = ("/torch/", "/torch_xla/", "/functorch/", "/torchax/", "/jax/")
_NOT_TRACING = (
    "/torch/utils/data/",
    "/torch/serialization.py",
    "/torch/utils/tensorboard/",
    "/torch/distributed/",
)
# Files of torch.compile that are on the stack only while it makes a program: dynamo's, and torch_xla's bridge to it,
# whose function that runs a program is another one. JAX's, from which XLA compiles: a compile that began before the
# recording left no event.
JAX_COMPILER = "/jax/_src/compiler.py"
_MAKES_PROGRAMS = (
    JAX_COMPILER,
    "/torch/_dynamo/convert_frame.py",
    "/torch/_dynamo/symbolic_convert.py",
    "/torch/_dynamo/output_graph.py",
)
_BRIDGE, _RUNS_PROGRAM = "/torch_xla/_dynamo/dynamo_bridge.py", "optimized_mod "
# Files of loaders: what their frames call makes or awaits a batch.
_LOADERS = (
    "/torch/utils/data/dataloader.py",
    "/torch_xla/distributed/parallel_loader.py",
    "-packages/grain/",
    "-packages/tensorflow/python/data/",
    "-packages/tensorflow_datasets/",
    "-packages/datasets/",
    "-packages/webdataset/",
    "-packages/seqio/",
)
# Where a queue or pipe of `multiprocessing`, or `subprocess`, waits for what a process sends: its calls look like reads
# of a file. `_execute_child` reads until the child has begun.
_FROM_PROCESS = re.compile(
    r"^(?:_recv \(.*/multiprocessing/connection|(?:_?communicate|_execute_child) \(.*/subprocess)\.py:\d+\)$"
)
# JAX's functions that lower a function or say what its program costs, and run nothing: who calls one in a step has work
# of its own there, and no dispatch (jax.stages, and `jax.eval_shape`, `jax.make_jaxpr`).
_LOOKS_AT_PROGRAM = re.compile(
    r"^(?:lower|trace|cost_analysis|memory_analysis|as_text|compiler_ir|eval_shape|make_jaxpr_f) "
    r"\(.*/jax/_src/(?:stages|pjit|api)\.py:\d+\)$"
)
_PACKAGES = ("/site-packages/", "/dist-packages/")
_STDLIB = re.compile(r"/lib/python3\.\d+/")
_FRAME_PATH = re.compile(r"\((.*):\d+\)$")


@record(frozen=True)
class Stack:
    """One stack: `frames` outermost first, as `function (file:line)`; the innermost frame's expression `call`.

    `source` (`file:line`) and `user_call` are of the innermost frame of the user's own code, empty where there is none.
    `iterator` is the user's generator or iterator that makes an element for a loop, as `function (file:line)`.
    """

    frames: tuple[str, ...]
    call: str
    source: str
    user_call: str
    iterator: str = ""

    @property
    def line(self) -> str:
        """What tells a line of the program from others: `source`, and in a text that it runs the line there."""
        return line_executed(self.user_call) + self.source

    @property
    def shown(self) -> str:
        """What the user's line calls; where that has no source text, what the innermost frame does."""
        return self.user_call or self.call

    @property
    def waits_for_autograd(self) -> bool:
        """Whether the thread waits in `.backward()` for autograd's thread."""
        return any(_BACKWARD in frame for frame in self.frames)


# The function of torch in which the training thread waits for autograd's.
_BACKWARD = "_engine_run_backward"
# As programs write it: `tpuprof.step(number)`, `with tpuprof.annotate("forward"):`.
_OWN_CALL = re.compile(r"(with )?tpuprof\.\w+\(")


def family(stack: Stack) -> str:
    """What a stack is in: torch.compile, a call that sleeps, writes or waits, a framework that traces, or none.

    A call of tpuprof's own counts as a framework's: what it costs is no work of the program's.
    """
    if any(map(makes_program, stack.frames)):
        return COMPILING
    if _OWN_CALL.match(stack.user_call or stack.call):
        return FRAMEWORK
    blocking = _blocking(stack.call)
    if stack.call.startswith(_WITH) or (blocking == IO and _awaits_process(stack)):
        blocking = LOCK
    if blocking:
        return blocking
    return FRAMEWORK if _in_framework(stack) and not looks_at_program(stack.frames) else PLAIN


def looks_at_program(frames: Iterable[str]) -> bool:
    """Whether a stack is in a function of JAX that lowers a program or says what it costs: nothing runs of it."""
    return any(_LOOKS_AT_PROGRAM.match(frame.replace("\\", "/")) for frame in frames)


def _awaits_process(stack: Stack) -> bool:
    """Whether the innermost frame receives from another process: the sender is the slower one, nothing is on a disk."""
    return bool(stack.frames) and _FROM_PROCESS.match(stack.frames[-1].replace("\\", "/")) is not None


def _blocking(text: str) -> str:
    """What a call does that blocks: `q.get()` waits for a thread, `d.get(key)` and `", ".join(names)` for none."""
    head, name, arguments = _call(text)
    kind = _CALLS.get(name, "")
    if name in _WAITS_BY_ARGUMENT and not _ARGUMENTS_OF_A_WAIT.match(arguments):
        return ""
    if name == "select" and not _SELECTS.search(head):
        return ""
    if name == "gather" and not head.startswith(("await ", "asyncio.")):
        return ""
    return kind


def called(text: str) -> str:
    """The last name that an expression calls: `flush` of `self.stream.flush()`; empty where it calls nothing."""
    return _call(text)[1]


def _call(text: str) -> tuple[str, str, str]:
    """What an expression calls last: all before its arguments, its last name, the arguments; of one cut off, the first.

    Empty where it calls nothing.
    """
    text = text.rstrip()
    head, arguments = "", ""
    if not text.endswith(")"):
        if text.endswith("…"):
            head, _, arguments = text.partition("(")
    else:
        depth = 0
        for at in range(len(text) - 1, -1, -1):
            depth += (text[at] == ")") - (text[at] == "(")
            if depth == 0:
                head, arguments = text[:at], text[at + 1 : -1]
                break
    found = _NAME.search(head)
    return head.rstrip(), found.group(1) if found else "", arguments


def makes_program(frame: str) -> bool:
    """Whether a frame is of torch.compile or JAX as it makes a program: nothing else runs meanwhile."""
    if _BRIDGE in frame:
        return not frame.startswith(_RUNS_PROGRAM)
    return any(path in frame for path in _MAKES_PROGRAMS)


def runs_no_framework(stack: Stack) -> bool:
    """Whether a line of the user's has no frame of a framework below it: what hands ops over there is an event."""
    at = f"({stack.source})"
    row = max((row for row, frame in enumerate(stack.frames) if frame.endswith(at)), default=-1)
    below = [frame.replace("\\", "/") for frame in stack.frames[row + 1 :]]
    return bool(stack.source) and not any(
        name in frame for frame in below for name in (*_FRAMEWORKS, "/torch_tpu/")
    )


def _in_framework(stack: Stack) -> bool:
    """Whether the innermost frame that is not of Python's own library belongs to a framework that traces."""
    for frame in reversed(stack.frames):
        found = _FRAME_PATH.search(frame)
        path = found.group(1).replace("\\", "/") if found else ""
        packaged = any(part in path for part in _PACKAGES)
        if is_generated(path) or (_STDLIB.search(path) and not packaged):
            continue
        if not packaged:
            return False
        return any(part in path for part in _FRAMEWORKS) and not any(part in path for part in _NOT_TRACING)
    return False


def loads_data(stack: Stack) -> bool:
    """Whether a stack is in a loader: it makes a batch, or waits for one."""
    return any(path in frame.replace("\\", "/") for frame in stack.frames for path in _LOADERS)
