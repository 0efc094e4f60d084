"""tpuprof: says what holds a PyTorch or JAX training run on TPU back, with the evidence.

Training code uses `annotate`, `annotate_modules`, `step`, `profile`, `watch`, `phase` and `start_server`; its tests use
`expect`; notebooks and scripts that look at a capture use `open`. Names are imported when first used, so
that importing tpuprof costs next to nothing and never imports torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tpuprof.version import VERSION

if TYPE_CHECKING:
    from tpuprof.analysis.analyze import analyze_run
    from tpuprof.capture.profile import profile
    from tpuprof.errors import TpuprofError
    from tpuprof.instrument.annotate import annotate
    from tpuprof.instrument.modules import annotate_modules
    from tpuprof.instrument.server import start_server
    from tpuprof.instrument.step import step
    from tpuprof.tables.opened import OpenRun
    from tpuprof.tables.opened import open_run as open
    from tpuprof.testing.expect import ExpectationError, expect
    from tpuprof.watch.api import phase, watch

__all__ = [
    "ExpectationError",
    "OpenJob",
    "OpenRun",
    "TpuprofError",
    "all_rules",
    "analyze_run",
    "annotate",
    "annotate_modules",
    "expect",
    "find_rule",
    "open",
    "open_job",
    "phase",
    "profile",
    "start_server",
    "step",
    "watch",
]

__version__ = VERSION

_HOMES = {
    "ExpectationError": "tpuprof.testing.expect",
    "OpenJob": "tpuprof.tables.opened_job",
    "OpenRun": "tpuprof.tables.opened",
    "TpuprofError": "tpuprof.errors",
    "all_rules": "tpuprof.rules.registry",
    "analyze_run": "tpuprof.analysis.analyze",
    "annotate": "tpuprof.instrument.annotate",
    "annotate_modules": "tpuprof.instrument.modules",
    "expect": "tpuprof.testing.expect",
    "find_rule": "tpuprof.rules.registry",
    "open": "tpuprof.tables.opened",
    "open_job": "tpuprof.tables.opened_job",
    "phase": "tpuprof.watch.api",
    "profile": "tpuprof.capture.profile",
    "start_server": "tpuprof.instrument.server",
    "step": "tpuprof.instrument.step",
    "watch": "tpuprof.watch.api",
}
_NAMES_AT_HOME = {"open": "open_run"}
# Names of earlier versions: they still work, with a warning.
_DEPRECATED = {"analyse_run": "analyze_run"}


def __getattr__(name: str) -> Any:
    if name in _DEPRECATED:
        import warnings

        warnings.warn(f"tpuprof.{name} is now tpuprof.{_DEPRECATED[name]}", DeprecationWarning, stacklevel=2)
        return __getattr__(_DEPRECATED[name])
    if name not in _HOMES:
        raise AttributeError(f"module 'tpuprof' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), _NAMES_AT_HOME.get(name, name))
    globals()[name] = value
    return value
