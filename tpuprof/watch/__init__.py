"""Watches training all the time: a ledger of every step, anomalies as they happen, captures of those, and exporters.

`tpuprof.watch` is also the function that starts it. Whoever imports a module of this package makes the package an
attribute of `tpuprof`, in the function's place: so the package can be called, too.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Any:
        """Do what `tpuprof.watch.api.watch` does."""
        from tpuprof.watch.api import watch

        return watch(*args, **options)


sys.modules[__name__].__class__ = _Callable
