"""The function that calls what compiles at several lines: a model that runs outside of a jitted function, say."""

from __future__ import annotations

from collections.abc import Sequence

from tpuprof.report.schema import CompileRow
from tpuprof.report.user_frames import frames_of_users
from tpuprof.rules.shared.recompile_cases import is_flow

# Share of the compile time that must come from within one line for that line to be named (share): nearly all of it.
WITHIN_FROM_SHARE = 0.9
_MODULE = "<module> ("


def common_caller(rows: Sequence[CompileRow]) -> str:
    """The innermost frame, `function (file:line)`, that nearly all of these compiles are called from, by their time.

    Empty where one line makes them itself, where they have only the program's own lines in common, and where no frame
    is known. A loop or a branch that JAX compiles because no jitted function is around it is called by its caller's
    line: what is to be jitted is there, and not in the model.
    """
    total = sum(row.duration_ms for row in rows)
    stacks = [(_callers(row), row.duration_ms) for row in rows]
    longest = max(stacks, key=lambda each: each[1], default=([], 0.0))[0]

    def took(frame: str, *, first: bool) -> float:
        return sum(ms for frames, ms in stacks if frame in (frames[:1] if first else frames))

    for depth, frame in enumerate(longest):
        if frame and not depth and took(frame, first=True) >= WITHIN_FROM_SHARE * total:
            return ""
        if frame and took(frame, first=False) >= WITHIN_FROM_SHARE * total:
            return "" if frame.startswith(_MODULE) else frame
    return ""


def _callers(row: CompileRow) -> list[str]:
    frames = frames_of_users(row.frames)
    # The line itself stands for its caller: it is one in the model.
    return ["", *frames[1:]] if is_flow(row) and len(frames) > 1 else frames
