"""A Python stack as text: function, file and line of each frame, and the expression that a frame is evaluating.

Nothing here keeps a frame: frames hold the program's variables alive.
"""

from __future__ import annotations

import os
import re
from dis import opmap
from functools import lru_cache
from inspect import CO_GENERATOR
from itertools import chain, pairwise
from types import CodeType, FrameType

from tpuprof.instrument.source_lines import jumps_back, line_of, position, source_lines
from tpuprof.instrument.thread_frames import Place, frames_of_thread
from tpuprof.own_events import SET_LAST, executed, is_generated
from tpuprof.safe_text import TO_SAFE

# Frames kept of a stack, innermost first (frames): recursion beyond it says nothing new.
MAX_FRAMES = 64
# Longer expressions are cut (characters).
MAX_EXPRESSION = 80
# What Python calls code at the top level of a file or a text.
_TOP_LEVEL = "<module>"
# Lines of an expression after its first that are read (lines).
MORE_LINES = 8
# Paths of which it is kept whose code they are (paths): more files than a program runs.
PATHS_KEPT = 4096
_STDLIB = os.path.dirname(os.__file__) + os.sep
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
# Of installed packages, those that a training program is written on, not with: their lines say little to a user.
_FRAMEWORK = re.compile(r"[/\\](?:site|dist)-packages[/\\](?:torch|torch_xla|torch_tpu|jax|jaxlib)[/\\]")
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# A text in an expression may be private, a key or a name; what is called tells enough without it.
_TEXT_LITERAL = re.compile(r"(\"\"\"|'''|\"|')(?:\\.|(?!\1).)+(?:\1|$)")
# A statement that holds others: the instruction that asks for a loop's next element has all of it for its place.
_HOLDS_OTHERS = re.compile(r"(?:async )?(?:for|while|with)\b")
_BRACKETS = {**dict.fromkeys("([{", 1), **dict.fromkeys(")]}", -1)}
# The instruction that a function begins with, and goes on with after it yielded (then its argument is not 0).
_RESUME = bytes([opmap["RESUME"]])
# The instruction at which a `for` loop asks for the next element, and calls by which a program asks itself.
_FOR_ITER = bytes([opmap["FOR_ITER"]])
_NEXT = re.compile(r"\bnext\(|\.__next__\(")
# Methods by which a class gives a loop its elements; the last serves a `for` loop alone.
_NEXT_METHOD, _ITEM_METHOD = "__next__", "__getitem__"


def places_of(frame: FrameType | None) -> list[Place]:
    """(code, instruction) of each frame, innermost first; tpuprof's own frames are left out."""
    places: list[Place] = []
    while frame is not None and len(places) < MAX_FRAMES:
        if not frame.f_code.co_filename.startswith(_OWN):
            places.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return places


def places_of_thread(ident: int) -> list[Place] | None:
    """As `places_of`, of a running thread; None where it has ended."""
    walked = frames_of_thread(ident, MAX_FRAMES)
    if walked is None:
        return None
    return [(code, at) for code, at in walked if not code.co_filename.startswith(_OWN)]


def safe(text: str) -> str:
    """Text that a stat of a profiler event can carry."""
    return text.translate(TO_SAFE)


def describe(places: list[Place], told: dict[tuple[int, int], str] | None = None) -> dict[str, str]:
    """A stack in words. `told` keeps those of frames, by the address of the code, for the stacks that follow.

    `frames` has `function (file:line)`, outermost first, separated by `;`; `call` is what the innermost frame
    evaluates, `source` and `user_call` are line and expression of the innermost frame of the user's own code; where it
    runs a text (`exec(cell)`), the expression begins with the line in the text.
    `iterator` is there where a loop or `next` waits for an element of the user's own generator or iterator: it names
    the outermost one.
    """
    places = _that_have_begun(places)
    told = {} if told is None else told
    frames = [_frame(place, told) for place in reversed(places)]
    own = _of_program(places)
    iterator = _iterator(places)
    return {
        "frames": ";".join(frames),
        "call": expression(*places[0]) if places else "",
        "source": f"{own[0].co_filename}:{line_of(*own)}" if own else "",
        "user_call": _of_user(places, own) if own else "",
        **({"iterator": iterator} if iterator else {}),
    }


def _of_program(places: list[Place]) -> Place | None:
    """The innermost place in the user's own code; where the whole program is an installed package, outside of
    frameworks.
    """
    users = (place for place in places if is_users(place[0].co_filename))
    packages = (
        place
        for place in places
        if is_package(place[0].co_filename) and not is_framework(place[0].co_filename)
    )
    return next(chain(users, packages), None)


def _of_user(places: list[Place], own: Place) -> str:
    """What the user's line evaluates; where it runs a text by `exec` or `eval`, with the line that runs there."""
    called = places[: places.index(own)]
    text = expression(*own)
    if not called or called[-1][0].co_name != _TOP_LEVEL or not is_generated(called[-1][0].co_filename):
        return text
    # Functions of another text that ran before have the same name for a file.
    inside = next(place for place in called if _is_part_of(called[-1][0], place[0]))
    return executed(line_of(*inside)) + (text or "a text that it runs")


def _is_part_of(whole: CodeType, code: CodeType) -> bool:
    """Whether code is a text's own or that of a function in it."""
    return whole is code or any(
        _is_part_of(each, code) for each in whole.co_consts if isinstance(each, CodeType)
    )


def _frame(place: Place, told: dict[tuple[int, int], str]) -> str:
    code, at = place
    text = told.get((id(code), at))
    if text is None:
        text = f"{code.co_name} ({code.co_filename}:{line_of(code, at)})".replace(";", ",")
        told[id(code), at] = text
    return text


def _iterator(places: list[Place]) -> str:
    """The user's outermost generator or iterator that is making an element, as `function (file:line)` of its begin."""
    for (code, _), caller in reversed(list(pairwise(places))):
        if is_users(code.co_filename) and _gives_elements(code, *caller):
            return f"{code.co_name} ({code.co_filename}:{code.co_firstlineno})"
    return ""


def _gives_elements(code: CodeType, caller: CodeType, at: int) -> bool:
    """Whether a function was called for the next element: a generator in `with`, in `sum()` or in `await` was not."""
    looped = caller.co_code[at : at + 1] == _FOR_ITER if at >= 0 else False
    if code.co_flags & CO_GENERATOR or code.co_name == _NEXT_METHOD:
        return looped or (caller.co_name != "__enter__" and bool(_NEXT.search(expression(caller, at))))
    return looped and code.co_name == _ITEM_METHOD


def _that_have_begun(places: list[Place]) -> list[Place]:
    """A stack without a function at its first instruction.

    Python lets go of its lock there: a sample that waited for it has seen what the caller did before the call.
    """
    if len(places) < 2:
        return places
    code, at = places[0]
    instruction = code.co_code[at : at + 2] if at >= 0 else b""
    begins = instruction[:1] == _RESUME and not instruction[1] & 3
    return places[1:] if begins else places


@lru_cache(maxsize=PATHS_KEPT)
def is_users(path: str) -> bool:
    """Whether a file is the user's own code: not Python's, not an installed package's, not generated.

    It is the one rule for this: of samples, reads, graph cuts and compiles alike.
    """
    return not (is_generated(path) or is_stdlib(path) or is_own(path) or is_package(path))


@lru_cache(maxsize=PATHS_KEPT)
def is_stdlib(path: str) -> bool:
    """Whether a file is in the folder of Python's own library, which may hold that of installed packages."""
    return path.startswith(_STDLIB)


@lru_cache(maxsize=PATHS_KEPT)
def is_package(path: str) -> bool:
    """Whether a file belongs to an installed package."""
    return any(part in path for part in _PACKAGES)


@lru_cache(maxsize=PATHS_KEPT)
def is_framework(path: str) -> bool:
    """Whether a file belongs to a package that training programs are written on, not with."""
    return _FRAMEWORK.search(path) is not None


@lru_cache(maxsize=PATHS_KEPT)
def is_own(path: str) -> bool:
    """Whether a file is tpuprof's."""
    return path.startswith(_OWN)


def expression(code: CodeType, instruction: int) -> str:
    """The source text of what an instruction evaluates (`time.sleep(0.03)`), empty where there is no source.

    Texts in it are left out: of `open("a", "w")` stays `open("…", "…")`.
    """
    line, last, column, until = position(code, instruction)
    if line is None or last is None or column is None or until is None:
        return ""
    raw = source_lines(code.co_filename, line, min(last, line + MORE_LINES))
    if len(raw) < min(last - line, MORE_LINES) + 1:
        return ""
    if line == last:
        raw = [raw[0][column:until]]
    else:
        raw[0] = raw[0][column:]
        raw[-1] = raw[-1][:until] if last < line + MORE_LINES else raw[-1]
    text = _TEXT_LITERAL.sub(r"\1…\1", " ".join(b" ".join(raw).decode("utf-8", "replace").split()))
    text = _head(text) if _HOLDS_OTHERS.match(text) else text
    if text.isidentifier() and jumps_back(code.co_code, instruction):
        # What the name held was freed before, where it took long at all.
        return f"{text}{SET_LAST}"
    return text if len(text) <= MAX_EXPRESSION else text[: MAX_EXPRESSION - 1] + "…"


def _head(statement: str) -> str:
    """A statement without those that it holds: `for x in batches` of a whole loop."""
    depth = 0
    for at, sign in enumerate(statement):
        depth += _BRACKETS.get(sign, 0)
        if sign == ":" and not depth and statement[at + 1 : at + 2] != "=":
            return statement[:at]
    return statement
