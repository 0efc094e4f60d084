"""Finds every rule: one folder per rule, `tpuprof/rules/<category>/<rule>/`, with the check in its `rule.py`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import tpuprof.rules
from tpuprof.errors import Code, TpuprofError
from tpuprof.rules.base import Rule

# The one package beside the categories: what several rules share.
_SHARED = "shared"


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by category and id. Raises `TypeError` where a folder of a category has no rule."""
    found = []
    for category in _packages(tpuprof.rules.__path__):
        if category == _SHARED:
            continue
        folders = [os.path.join(folder, category) for folder in tpuprof.rules.__path__]
        for each in _packages(folders):
            name = f"tpuprof.rules.{category}.{each}.rule"
            check = getattr(_module(name, folders), "check", None)
            if not isinstance(check, Rule):
                raise TypeError(f"{name} has no rule: its `check` needs the @rule decorator")
            found.append(check)
    return tuple(sorted(found, key=lambda each: (each.category, each.id)))


def _module(name: str, folders: list[str]) -> ModuleType:
    """A rule's module, without its package: that is empty, and Python would look for each of them in four places."""
    if name in sys.modules:
        return sys.modules[name]
    *_, package, module = name.split(".")
    for folder in folders:
        spec = spec_from_file_location(name, os.path.join(folder, package, f"{module}.py"))
        if spec is not None and spec.loader is not None and spec.origin and os.path.isfile(spec.origin):
            found = sys.modules[name] = module_from_spec(spec)
            try:
                spec.loader.exec_module(found)
            except BaseException:
                del sys.modules[name]
                raise
            return found
    return importlib.import_module(name)


def _packages(folders: Iterable[str]) -> list[str]:
    """Names of the packages in folders; a folder without a module, as git leaves one behind, is none."""
    found = []
    for folder in folders:
        with os.scandir(folder) as entries:
            names = [each.name for each in entries if each.name.isidentifier() and each.is_dir()]
        found += [name for name in names if os.path.isfile(os.path.join(folder, name, "__init__.py"))]
    return sorted(found)


def find_rule(rule_id: str) -> Rule:
    """The rule of that id. Raises `TpuprofError` (`usage`) where there is none, with the nearest ids."""
    import difflib

    by_id = {each.id: each for each in all_rules()}
    if rule_id in by_id:
        return by_id[rule_id]
    near = difflib.get_close_matches(rule_id, by_id, n=3)
    hint = f"Did you mean {' or '.join(near)}?" if near else "`tpuprof rules` lists all."
    raise TpuprofError(Code.USAGE, f"there is no rule {rule_id!r}.", hint)
