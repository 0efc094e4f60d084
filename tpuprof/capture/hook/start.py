"""Runs a script, `-m MODULE` or `-c CODE` as Python itself does, after the capture hook was set up.

Used where Python was started to ignore its environment (-I, -E, -S), so that the hook is not found by itself.
"""

import os
import sys
from types import CodeType
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))


def _install() -> None:
    folder = os.environ.get("TPUPROF_CAPTURE")
    if not folder:
        return
    try:
        from tpuprof.capture.injected import install
    except ImportError:
        sys.path.append(_PACKAGE)
        from tpuprof.capture.injected import install
    install(folder)


def _without_our_frame(shown: Any, ours: str) -> Any:
    """An excepthook that leaves this file out of the traceback of the script."""

    def hook(kind: Any, error: Any, trace: Any) -> None:
        while trace is not None and trace.tb_frame.f_code.co_filename == ours:
            trace = trace.tb_next
        shown(kind, error.with_traceback(trace), trace)

    return hook


def _set_path(first: str) -> None:
    if sys.flags.safe_path:
        return  # Python put nothing there
    sys.path[0] = first


def _code(words: list[str]) -> tuple[CodeType, str | None]:
    """The code to run and the file it is from; sys.argv and sys.path are as Python would have set them."""
    if words[0] == "-c":
        sys.argv[:] = ["-c", *words[2:]]
        _set_path("")
        return compile(words[1], "<string>", "exec"), None
    sys.argv[:] = words
    _set_path(os.path.dirname(os.path.realpath(words[0])))
    import io

    path = os.path.abspath(words[0])
    with io.open_code(path) as file:
        return compile(file.read(), path, "exec"), path


def _main(words: list[str]) -> None:
    if words[0] == "-m":
        sys.argv[:] = ["-m", *words[2:]]
        _set_path(os.getcwd())
        import runpy

        runpy._run_module_as_main(words[1])  # type: ignore[attr-defined]  # what `python -m` calls
        return
    code, file = _code(words)
    names = sys.modules["__main__"].__dict__
    for name in [each for each in names if not each.startswith("__")]:
        del names[name]
    names["__doc__"] = None
    names.pop("__file__", None)
    if file is not None:
        names["__file__"] = file
    exec(code, names)


try:
    _install()
except Exception as _error:
    print(f"tpuprof: the capture hook could not be set up: {_error!r}", file=sys.stderr)
sys.excepthook = _without_our_frame(sys.excepthook, __file__)
_main(sys.argv[1:])
