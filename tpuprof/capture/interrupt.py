"""A program that Ctrl-C ended ends by that signal, whatever is imported as it ends."""

from __future__ import annotations

import ctypes
import sys
from types import TracebackType

from tpuprof.instrument.state import pass_on

# How C code names the compilation of statements (`Py_file_input`).
_STATEMENTS = 257


def keep_interrupt() -> None:
    """Have Python end by SIGINT if an interrupt ended the program; called last of all that runs at the end.

    Python notes an interrupt that nobody caught, and ends by the signal once it is through: a shell stops its script
    then. It forgets that note whenever text is run as code, as an import of a dataclass does.
    """
    if not _ended_by_interrupt():
        return
    try:
        run = ctypes.pythonapi.PyRun_String
        run.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.py_object, ctypes.py_object]
        run.restype = ctypes.py_object
        run(b"raise KeyboardInterrupt", _STATEMENTS, {}, {})
    except KeyboardInterrupt:
        pass  # noted again
    except Exception as error:
        pass_on(error)


def _ended_by_interrupt() -> bool:
    """Whether the main program's own code let an interrupt through: `python -m` ends by no signal then."""
    if getattr(sys, "last_type", None) is not KeyboardInterrupt:
        return False
    trace: TracebackType | None = getattr(sys, "last_traceback", None)
    main = sys.modules.get("__main__")
    return trace is not None and main is not None and trace.tb_frame.f_globals is vars(main)
