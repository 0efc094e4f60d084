"""Put first on PYTHONPATH by `tpuprof capture`: sets the recorder up as soon as a program imports torch_xla.

Python imports a module of this name at start-up. A sitecustomize of the user's own is imported in its place
afterwards. This folder leaves `sys.path`, so that the program finds the modules it would find without us.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))


def _install() -> None:
    folder = os.environ.get("TPUPROF_CAPTURE")
    if not folder:
        return
    try:
        from tpuprof.capture.injected import install
    except ImportError:
        # An interpreter without tpuprof: last on the path, the folder hides no module of the program's.
        sys.path.append(_PACKAGE)
        from tpuprof.capture.injected import install
    install(folder)


sys.path[:] = [_entry for _entry in sys.path if os.path.abspath(_entry or ".") != _HERE]
try:
    _install()
except Exception as _error:
    print(f"tpuprof: the capture hook could not be set up: {_error!r}", file=sys.stderr)

_ours = sys.modules.pop(__name__, None)
try:
    # The user's own; an error in it is reported by Python as ever.
    import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
except ModuleNotFoundError as _error:
    if _error.name != "sitecustomize":
        raise
finally:
    if _ours is not None:
        sys.modules.setdefault(__name__, _ours)  # importlib looks for it once this module has run
