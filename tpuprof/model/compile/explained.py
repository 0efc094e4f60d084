"""Why JAX traced a function again, in its own words: which argument changed, and how.

The capture puts what `jax_explain_cache_misses` logs on the timeline. It names what programs do not hold: a weak type,
a static argument, a function that is defined again.
"""

from __future__ import annotations

import re
from dataclasses import replace

from tpuprof.model.compile.cause import (
    EXPLAINED,
    NEW_FUNCTION,
    NEW_STATIC,
    UNKNOWN_FUNCTION,
    WEAK_TYPE,
    CompileCause,
    list_of,
)
from tpuprof.model.compile.compiles import Compile, function_of

_PLACE = re.compile(r"^TRACING CACHE MISS at (.+?:\d+)(?::\d+)? ")
_FUNCTION = re.compile(r"^  (?:for (\S+)|never seen function:\n    (\S+))", re.MULTILINE)
_AGAIN = "but seen another function defined on the same line"
_SEEN = re.compile(r"^    (\S+) id=(\d+)(.*)$", re.MULTILINE)
# Where an object lies in memory, in its text: an object without a text of its own differs in nothing else.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
# One of the keys that JAX compares with, and in it an argument whose type changed.
_KEY = re.compile(r"^  \* key with (different .*?):?$\n((?:^    .*\n?)*)", re.MULTILINE)
_TYPE = re.compile(r"\* at (.+?), now (\S+) and before (\S+?)\.?$", re.MULTILINE)
_NOW = re.compile(r"\bnow:? (.*?)(?: and|\n) +before:? (.*)$", re.MULTILINE)
_WEAK = re.compile(r"\{weak_type=(?:True|False)\}")
_IS_WEAK = "weak_type=True"
# Letters of a function's name in the name of its program: `<lambda>` becomes `jit__lambda`.
_LETTERS = re.compile(r"\W|_")
# Kinds of difference by the words JAX has for them, with the kind of cause and what is said of it.
_OTHERS = {
    "different value of static": ("constant", "a static argument changed"),
    "different static_argnums": ("constant", "other arguments are static"),
    "different input pytree": ("graph", "the tree of the arguments changed"),
    "different number of args": (
        "graph",
        "arguments are passed by name that were passed by position, or the other way round",
    ),
}


def with_explanations(compiles: list[Compile], said: list[tuple[int, str]]) -> list[Compile]:
    """The compiles; one whose function JAX explained since the compile before has that cause.

    `said` is JAX's messages, each with its time (ps).
    """
    found, since = [], -1
    new = _of_several_objects([text for _, text in said])
    for each in compiles:
        texts = [text for at, text in said if since <= at <= each.start_ps and _is_of(text, each.program)]
        cause = cause_in(texts[-1], new=_function_in(texts[-1]) in new) if texts else None
        found.append(replace(each, cause=cause) if cause is not None else each)
        since = each.start_ps + each.duration_ps
    return found


def _function_in(text: str) -> tuple[str, str]:
    """The name and the place of a function that JAX had not seen; empty where a message says nothing of one."""
    found = _SEEN.search(text)
    return (found.group(1), found.group(3)) if found else ("", "")


def _of_several_objects(texts: list[str]) -> set[tuple[str, str]]:
    """Functions that were other objects from message to message.

    JAX says the same of a function whose caches were cleared, and a new object may lie where the last one lay.
    """
    seen: dict[tuple[str, str], set[str]] = {}
    for text in texts:
        found = _SEEN.search(text)
        if found is not None:
            seen.setdefault(_function_in(text), set()).add(found.group(2))
    return {function for function, objects in seen.items() if len(objects) > 1}


def cause_in(text: str, *, new: bool = True) -> CompileCause | None:
    """The cause that one message of JAX's states; None where it tells no difference.

    `new` says that a function which JAX did not know is known to be another object than before.
    """
    place = _PLACE.match(text)
    source = place.group(1) if place else ""
    if _AGAIN in text:
        detail = (
            f"{NEW_FUNCTION}: another function was defined on the same line before"
            if new
            else f"{UNKNOWN_FUNCTION}: it is a new object, or JAX's caches were cleared"
        )
        return CompileCause("again", detail + EXPLAINED, source)
    keys = _KEY.findall(text)
    if not keys:
        return None
    head, body = keys[-1]
    kind, detail = _difference(head, body)
    return CompileCause(kind, detail + EXPLAINED, source) if kind else None


def _difference(head: str, body: str) -> tuple[str, str]:
    types = _TYPE.findall(body)
    if head.startswith("different input types") and types:
        return _of_types(types)
    for words, (kind, said) in _OTHERS.items():
        if head.startswith(words):
            pair = _NOW.search(body)
            if pair and kind == "constant" and _same_but_for_place(pair.group(1), pair.group(2)):
                return "again", f"{NEW_STATIC}: {_ADDRESS.sub('', pair.group(1))}"
            return kind, f"{said}: {pair.group(2)} became {pair.group(1)}" if pair else said
    return "", ""


def _same_but_for_place(now: str, before: str) -> bool:
    """Whether two values are objects that differ in nothing but where they lie in memory."""
    return bool(_ADDRESS.search(now)) and _ADDRESS.sub("", now) == _ADDRESS.sub("", before)


def _of_types(types: list[tuple[str, str, str]]) -> tuple[str, str]:
    """The kind of change, and the arguments that changed."""
    plain = [(name, _WEAK.sub("", now), _WEAK.sub("", before)) for name, now, before in types]
    changed = [each for each in plain if each[1] != each[2]]
    if not changed:
        names = list_of(
            [f"{name} {'became' if _IS_WEAK in now else 'was'} a Python number" for name, now, _ in types]
        )
        return "again", f"{WEAK_TYPE}: {names}"
    same_shape = all(now.partition("[")[2] == before.partition("[")[2] for _, now, before in changed)
    noun = "an argument" if len(changed) == 1 else f"{len(changed)} arguments"
    told = list_of([f"{name} {before} became {now}" for name, now, before in changed])
    return "dtype" if same_shape else "shape", f"{noun} changed: {told}"


def _is_of(text: str, program: str) -> bool:
    """Whether a message is of the function that a program was made of; yes where either name is unknown."""
    found = _FUNCTION.search(text)
    if not program or found is None:
        return True
    name = _LETTERS.sub("", found.group(1) or found.group(2))
    return _LETTERS.sub("", function_of(program)).removeprefix("jit") == name
