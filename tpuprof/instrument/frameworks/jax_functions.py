"""Where the jitted function is defined that JAX compiles: a fix of a function that is made again belongs there."""

from __future__ import annotations

import re
import sys
from types import FrameType

from tpuprof.instrument.stack_text import is_users

# JAX's own functions have the function that they compile as this local variable, and say of it where it was defined:
# `train_step at /home/me/train.py:52`. What it is called is no public name: where it is not there, nothing is known.
_LOCAL = "jaxpr"
_DEFINED = re.compile(r"(\S+) at (.+):(\d+)$")
_PACKAGE = "jax."


def definition(innermost: FrameType | None = None) -> str:
    """The function that is compiled and its first line, `function (file:line)`, from a frame on or from here.

    Empty where JAX does not tell it, and where the function is not in the program's own files.
    """
    frame: FrameType | None = innermost or sys._getframe(1)
    while frame is not None:
        if _LOCAL in frame.f_code.co_varnames and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
            # A further one would be of a function that is traced around this one.
            return _told_by(frame.f_locals.get(_LOCAL))
        frame = frame.f_back
    return ""


def _told_by(jaxpr: object) -> str:
    """What JAX's debug information says of a traced function, as `definition` does."""
    own = getattr(jaxpr, "jaxpr", jaxpr)
    found = _DEFINED.match(str(getattr(getattr(own, "debug_info", None), "func_src_info", "")))
    if found is None:
        return ""
    name, file, line = found.groups()
    return f"{name} ({file}:{line})" if is_users(file) else ""
