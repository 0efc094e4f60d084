"""Finds every rule: one folder per rule, `tpuprof/rules/<category>/<rule>/`, with the check in its `rule.py`."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from functools import cache

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
        package = importlib.import_module(f"tpuprof.rules.{category}")
        for each in _packages(package.__path__):
            name = f"tpuprof.rules.{category}.{each}.rule"
            check = getattr(importlib.import_module(name), "check", None)
            if not isinstance(check, Rule):
                raise TypeError(f"{name} has no rule: its `check` needs the @rule decorator")
            found.append(check)
    return tuple(sorted(found, key=lambda each: (each.category, each.id)))


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
