"""Runs our set-up right after a program has imported a framework, and leaves the import as it is.

A finder stands first on `sys.meta_path` and asks the other finders. The spec it returns is theirs, with their
loader: `importlib.util.find_spec` may be called any number of times. Only the spec's class differs until the
module's code has run, because importlib sets `_initializing` on the spec before and after that. So no frame
of ours is in the traceback of an import that fails, and the next import of the same module is watched again.
This module imports nothing but the import system itself.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Action = Callable[[str], None]
_LAZY = "importlib.util"  # where the class of a module is defined whose code waits for its first use


class _Watch:
    """What to do around the import of one module."""

    def __init__(self, after: Action, before: Action | None) -> None:
        self.after = after
        self.before = before


_wanted: dict[str, list[_Watch]] = {}


def watch(names: tuple[str, ...], after: Action, before: Action | None = None) -> None:
    """Call `after(name)` once when the code of a top-level module has run without an error.

    `before(name)` is called right before each attempt to run it. Where the module is there already, `after`
    is called at once. Neither may raise: an error is printed in one line, and the import goes on.
    """
    for name in names:
        if _has_run(name):
            _call(after, name)
        else:
            _wanted.setdefault(name, []).append(_Watch(after, before))
    if _wanted and _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


class _Finder:
    """Never leaves `sys.meta_path`: another thread may be in the middle of walking through that list."""

    def __init__(self) -> None:
        self._asking = threading.local()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The other finders' spec of a watched module; nothing for other modules."""
        if not _wanted:
            return None
        if sys.meta_path[0] is not self:
            _move_to_front(self)
        if fullname not in _wanted:
            _look_for_missed()
            return None
        return self._ask_the_others(fullname, path, target)

    def _ask_the_others(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        asking: set[str] = self._asking.__dict__.setdefault("names", set())
        if fullname in asking:
            return None  # another finder that asks all finders, us among them
        asking.add(fullname)
        try:
            for finder in tuple(sys.meta_path):
                find = getattr(finder, "find_spec", None)
                spec = find(fullname, path, target) if find and finder is not self else None
                if spec is not None:
                    return _watched(spec)
        finally:
            asking.discard(fullname)
        return None


_FINDER: Any = _Finder()


class _WatchedSpec(ModuleSpec):
    """The real spec until the module's code has run."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name != "_initializing":
            return
        if value:
            for each in tuple(_wanted.get(self.name, ())):
                if each.before:
                    _call(each.before, self.name)
        elif self.name in sys.modules:  # an import that failed has removed it
            self.__class__ = ModuleSpec  # type: ignore[assignment]  # the class it had
            _fire(self.name)


def _watched(spec: ModuleSpec) -> ModuleSpec:
    if type(spec) is ModuleSpec:  # of another class: found later, by `_look_for_missed`
        spec.__class__ = _WatchedSpec
    return spec


def _fire(name: str) -> None:
    for each in _wanted.pop(name, ()):
        _call(each.after, name)


def _look_for_missed() -> None:
    """Act late on a module that another finder, which stood before ours, has loaded past us."""
    for name in tuple(_wanted):
        if _has_run(name):
            _fire(name)


def _has_run(name: str) -> bool:
    module = sys.modules.get(name)
    if module is None or type(module).__module__ == _LAZY:
        return False
    return not getattr(module.__dict__.get("__spec__"), "_initializing", False)


def _move_to_front(finder: Any) -> None:
    # First in, then out: a walk in another thread may see a finder twice, but never misses one.
    sys.meta_path.insert(0, finder)
    for index in range(len(sys.meta_path) - 1, 0, -1):
        if sys.meta_path[index] is finder:
            del sys.meta_path[index]


def _call(action: Action, name: str) -> None:
    try:
        action(name)
    except Exception as error:
        from tpuprof.instrument.state import pass_on

        pass_on(error)
        print(f"tpuprof: what was to follow the import of {name} failed: {error!r}", file=sys.stderr)
