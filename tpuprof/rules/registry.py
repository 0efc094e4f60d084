"""Finds every rule: one folder per rule, `tpuprof/rules/<category>/<rule>/`, with the check in its `rule.py`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

import tpuprof.rules
from tpuprof.errors import Code, TpuprofError
from tpuprof.rules.base import Rule

# The one package beside the categories: what several rules share.
_SHARED = "tpuprof.rules.shared"


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by category and id. Raises `TypeError` where a folder of a category has no rule."""
    found = []
    for category in pkgutil.iter_modules(tpuprof.rules.__path__, "tpuprof.rules."):
        if not category.ispkg or category.name == _SHARED:
            continue
        package = importlib.import_module(category.name)
        for module in pkgutil.iter_modules(package.__path__, f"{category.name}."):
            name = f"{module.name}.rule"
            check = getattr(importlib.import_module(name), "check", None)
            if not isinstance(check, Rule):
                raise TypeError(f"{name} has no rule: its `check` needs the @rule decorator")
            found.append(check)
    return tuple(sorted(found, key=lambda each: (each.category, each.id)))


def find_rule(rule_id: str) -> Rule:
    """The rule of that id. Raises `TpuprofError` (`usage`) where there is none, with the nearest ids."""
    import difflib

    by_id = {each.id: each for each in all_rules()}
    if rule_id in by_id:
        return by_id[rule_id]
    near = difflib.get_close_matches(rule_id, by_id, n=3)
    hint = f"Did you mean {' or '.join(near)}?" if near else "`tpuprof rules` lists all."
    raise TpuprofError(Code.USAGE, f"there is no rule {rule_id!r}.", hint)
