"""Whether what advice names exists in the installed libraries: imports, attributes, arguments, variables and flags.

Nothing of a program is run. A name is followed from the program's imports as far as modules, classes and functions go;
what a value of the program offers (`model.step`) is seen only by running it.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import mmap
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from tpuprof.rules.base import Rule
from tpuprof.rules.programs import Advice

# Dotted names of these packages in prose are looked up.
_PACKAGES = "torch|torch_xla|jax|torchax|tpuprof|functorch"
_DOTTED = re.compile(rf"\b(?:{_PACKAGES})(?:\.[A-Za-z_]\w*)+")
_FLAG = re.compile(r"--((?:xla|megascale)_\w+)")
_VARIABLE = re.compile(r"\b((?:XLA|PT_XLA|LIBTPU|JAX)_[A-Z_]+)\b")
_UNKNOWN = object()


def missing(rule: Rule, advice: Advice) -> list[str]:
    """What a rule's programs, plan and text name for a framework and the libraries do not have."""
    found = []
    for program in (advice.before, advice.after):
        if program.path.is_file():
            found += [
                f"{program.path.name}: {each}" for each in missing_in_program(program.path.read_text("utf-8"))
            ]
        found += missing_in_text(
            " ".join([*program.environment, *program.environment.values(), program.shown])
        )
    return found + missing_in_text(rule.page.remedy(advice.framework).text)


def missing_in_program(source: str) -> list[str]:
    """Imports, attributes and arguments of a program that do not exist."""
    tree = ast.parse(source)
    names: dict[str, Any] = {}
    found = []
    for node in ast.walk(tree):
        for name, imported in _imports(node):
            if isinstance(imported, str):
                found.append(imported)
            else:
                names[name] = imported
    own = {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    names = {name: value for name, value in names.items() if name not in own}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            holder = _value(node.value, names)
            if holder is not _UNKNOWN and not hasattr(holder, node.attr):
                found.append(f"{ast.unparse(node)} does not exist")
        elif isinstance(node, ast.Call):
            found += _wrong_call(node, names)
    return found


def missing_in_text(text: str) -> list[str]:
    """Dotted names, flags and variables of a text that do not exist."""
    found = [f"{name} does not exist" for name in _DOTTED.findall(text) if not exists(name)]
    found += [f"flag {name} does not exist" for name in _FLAG.findall(text) if not _in_libraries(name)]
    known = ("LIBTPU_INIT_ARGS", "XLA_FLAGS")
    found += [
        f"variable {name} is read by none"
        for name in _VARIABLE.findall(text)
        if name not in known and not _in_libraries(name)
    ]
    return found


def exists(dotted: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    module, _, last = dotted.rpartition(".")
    if module and hasattr(sys.modules.get(module), last):
        return True  # a module whose package has a function of the same name
    parts = dotted.split(".")
    value: Any = importlib.import_module(parts[0])
    for count, part in enumerate(parts[1:], 2):
        if not hasattr(value, part):
            if not hasattr(value, "__path__") or find_spec(".".join(parts[:count])) is None:
                return False
            value = importlib.import_module(".".join(parts[:count]))
        else:
            value = getattr(value, part)
    return True


def _imports(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """Names that an import binds, each with what it is, or with a text that says why not."""
    if isinstance(node, ast.Import):
        for each in node.names:
            try:
                module = importlib.import_module(each.name)
            except ImportError as error:
                yield each.name, f"import {each.name}: {error}"
                continue
            bound = each.asname or each.name.partition(".")[0]
            yield bound, module if each.asname else importlib.import_module(bound)
    elif isinstance(node, ast.ImportFrom):
        for each in node.names:
            name = f"{node.module}.{each.name}"
            try:
                module = importlib.import_module(node.module or "")
            except ImportError as error:
                yield each.name, f"from {node.module}: {error}"
                continue
            if hasattr(module, each.name) or exists(name):
                yield each.asname or each.name, getattr(module, each.name)
            else:
                yield each.name, f"{name} does not exist"


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    """What an expression is, as far as imports and attributes of modules and classes tell."""
    if isinstance(node, ast.Name):
        return names.get(node.id, getattr(builtins, node.id, _UNKNOWN) if node.id not in names else _UNKNOWN)
    if isinstance(node, ast.Attribute):
        holder = _value(node.value, names)
        if isinstance(holder, ModuleType) or inspect.isclass(holder):
            return getattr(holder, node.attr, _UNKNOWN)
    return _UNKNOWN


def _wrong_call(node: ast.Call, names: dict[str, Any]) -> list[str]:
    """What is wrong with the arguments of a call, where the function is known and states its own."""
    called = _value(node.func, names)
    if called is _UNKNOWN or not callable(called):
        return []
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):
        return []
    if any(isinstance(each, ast.Starred) for each in node.args) or any(
        each.arg is None for each in node.keywords
    ):
        return []
    try:
        signature.bind(*node.args, **{each.arg: None for each in node.keywords if each.arg})
    except TypeError as error:
        return [f"{ast.unparse(node.func)}: {error}"]
    return []


@cache
def _in_libraries(name: str) -> bool:
    """Whether a flag or a variable occurs in the binaries or the Python of the libraries that read it."""
    word = re.compile(rb"(?<![A-Za-z0-9_])(?:FLAGS_)?" + name.encode() + rb"(?![A-Za-z0-9_])")
    return any(_holds(path, name.encode(), word) for path in _library_files())


@cache
def _library_files() -> list[Path]:
    found: list[Path] = []
    for package, patterns in {
        "libtpu": ("libtpu.so",),
        "torch_xla": ("**/*.py", "../_XLAC*.so"),
        "jaxlib": ("**/*.so",),
        "jax": ("_src/*.py",),
    }.items():
        spec = find_spec(package)
        if spec and spec.origin:
            folder = Path(spec.origin).parent
            found += [path for pattern in patterns for path in folder.glob(pattern)]
    return found


def _holds(path: Path, name: bytes, word: re.Pattern[bytes]) -> bool:
    if not path.stat().st_size:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        # Looking for the plain bytes first is many times faster than the pattern alone.
        at = data.find(name)
        while at >= 0:
            if word.match(data, at) or word.match(data, max(at - 6, 0)):
                return True
            at = data.find(name, at + 1)
    return False
