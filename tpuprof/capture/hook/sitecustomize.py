"""Put first on PYTHONPATH by `tpuprof capture`: sets the recorder up as soon as a program imports torch_xla.

Python imports a module of this name at start-up. If the user has one of their own further along the path,
it is run too. Nothing in here may raise: the program must start as it would without us.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _run_the_users_own() -> None:
    import importlib.machinery
    import importlib.util

    others = [path for path in sys.path if os.path.abspath(path or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _install() -> None:
    if not os.environ.get("TPUPROF_CAPTURE"):
        return
    from tpuprof.capture.child import install

    install()


for _action in (_run_the_users_own, _install):
    try:
        _action()
    except Exception as _error:
        print(f"tpuprof: the capture hook could not be set up: {_error!r}", file=sys.stderr)
