"""Finds every rule: one module a rule under `tpuprof/rules/<category>/`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

import tpuprof.rules
from tpuprof.errors import Code, TpuprofError
from tpuprof.rules.base import Rule


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by category and id. Raises `TypeError` where a module of a category holds no rule."""
    found = []
    for category in pkgutil.iter_modules(tpuprof.rules.__path__, "tpuprof.rules."):
        if not category.ispkg:
            continue
        package = importlib.import_module(category.name)
        for module in pkgutil.iter_modules(package.__path__, f"{category.name}."):
            check = getattr(importlib.import_module(module.name), "check", None)
            if not isinstance(check, Rule):
                raise TypeError(f"{module.name} has no rule: its `check` needs the @rule decorator")
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
