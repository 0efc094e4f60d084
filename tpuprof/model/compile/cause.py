"""What changed between a graph that was compiled and the nearest graph before it.

Both programs are compared as the trace embeds them, after optimization: their inputs first (a batch of another
length, another dtype, another number of inputs), then how inputs are sharded, then constants baked into the
graph (a learning rate, a step counter), then the ops themselves, then what those were given: sizes, arrays, paddings;
then the results, then which values each op works on.
Inputs are compared as a collection, because their order may change with the graph. Where the ops are the same, so is
their order: of two sequences that are padded each, the other one may be the longer now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from tpuprof.decode.hlo import PRODUCTS
from tpuprof.model.compile.changed_lines import changed_lines
from tpuprof.model.compile.outline import (
    Type,
    counted,
    difference,
    literal_of,
    literals_of,
    opcodes_of,
    result_types,
    same_ops,
    size_of,
    type_of,
    typed,
    types_of,
)
from tpuprof.model.compile.places import first_use, joined_at, odd_place, place_of, source_of
from tpuprof.model.compile.programs import Kept, Programs
from tpuprof.records import record
from tpuprof.units import listed

if TYPE_CHECKING:
    from tpuprof.decode.hlo import HloModule, Instruction

LAST_BATCH = ", as the last, shorter batch of an epoch does"
# Inputs that a program returns with the same change are what a step updates: weights, moments of an optimizer.
WEIGHTS = "; the program also returns these, as it does the weights of a model"
_NO_BACKWARD = "; the backward pass is gone, as in evaluation after training"
# Changes named in a detail text; more are counted (items).
_SHOWN = 3
# What changed where neither inputs, single constants nor the ops did.
_SIZE = "a size in the graph changed, and no input did"
BAKED_ARRAY = "an array of constants baked into the graph changed"
_SETTING = "the padding or window of an op changed"

# Causes kept (causes): those of a host that recompiles in every step of a long capture.
CAUSES_KEPT = 1_024

# The nearest graph need not be the one of the step before.
# How the detail of a graph with another number of inputs begins.
OF_INPUTS = "it takes "
# What the detail says where the ops of a graph are others as well.
OPS_CHANGED = "the ops changed"
NOT_THE_LAST = "compared with the most similar graph before, not the last"

SAME_PROGRAM = (
    "the two programs have the same inputs, constants and ops; in JAX a new function object, a new object as a "
    "static argument, a cleared cache, or an argument's weak type may be why"
)

REWIRED = "the ops are the same, but they work on other values: another sample or branch, say"

SLICED_AS_DECIDED = (
    "other pieces of a tensor are used, and another number of them from graph to graph: Python decides which, in a "
    "branch or a loop, say"
)

# How the detail begins of each cause of kind `again` that JAX explains; rules have advice of its own for each.
NEW_FUNCTION = "a new function object"
UNKNOWN_FUNCTION = "JAX did not know the function"
NEW_STATIC = "a static argument is a new object"
WEAK_TYPE = "the weak type of an argument changed"
# How the detail of each of JAX's explanations ends.
EXPLAINED = " (JAX's explanation)"


@record(frozen=True)
class CompileCause:
    """Why a graph was compiled: kind is first, again, shape, dtype, sharding, constant, graph or unknown.

    `source` is `file:line` of an op that uses what changed, empty where the programs carry no source lines, and `also`
    are further lines whose numbers changed: each of them compiles by itself. `others` says that there may be more
    such lines, which the programs do not tell. `more_ops` is how many ops the program has more than the one that it was
    compared with: 0 where that was not counted. `compared` is the row of that one among the earlier programs that the
    capture holds, the newest first; -1 where there was none.
    """

    kind: str
    detail: str
    source: str = ""
    more_ops: int = 0
    also: tuple[str, ...] = ()
    others: bool = False
    compared: int = -1


# By the digests of the programs that a cause was found from.
_KNOWN: Kept[CompileCause] = Kept(CAUSES_KEPT)


def explain(program: str, earlier: list[str], protos: Mapping[str, bytes]) -> CompileCause:
    """Why `program` was compiled, given the programs there were `earlier` and the serialized HLO of each."""
    if not program:
        return CompileCause("unknown", "the compiled graph did not run inside the capture")
    if program not in protos:
        return CompileCause("unknown", "the capture holds no HLO of the compiled graph")
    known = [name for name in earlier if name in protos]
    if not known:
        return CompileCause(
            "first",
            "the first graph of this function in the capture, so nothing to compare it with",
        )
    # Hosts of a pod embed the same programs: what is known by their contents is not compared again.
    programs = Programs.of(protos)
    key = b"".join(programs.digest(name) for name in (program, *known))
    found = _KNOWN.get(key)
    if found is not None:
        return found
    nearest = programs.nearest_name(program, known)
    pair = programs.nearest(program, [nearest])
    cause = compare(*pair) if pair else CompileCause("unknown", "the HLO in the capture is damaged")
    if pair and not cause.source:
        lined = _by_another(program, known, programs, cause.kind)
        cause = replace(cause, source=lined.source, also=lined.also, others=lined.others) if lined else cause
    if pair and cause.kind == "constant" and programs.slices_vary(program, nearest, known):
        cause = replace(cause, kind="graph", detail=SLICED_AS_DECIDED)
    if pair and nearest != known[0]:
        cause = replace(cause, detail=f"{cause.detail} ({NOT_THE_LAST})")
    return _KNOWN.put(key, replace(cause, compared=known.index(nearest) if nearest else -1))


def _by_another(program: str, known: list[str], programs: Programs, kind: str) -> CompileCause | None:
    """The cause by a program that is as near as the one compared and has lines; None where none tells that cause."""
    lined = programs.nearest_with_lines(program, known)
    pair = programs.nearest(program, [lined]) if lined else None
    cause = compare(*pair) if pair else None
    return cause if cause is not None and cause.kind == kind else None


def compare(new: HloModule, old: HloModule) -> CompileCause:
    """The first difference, in the order of the module's docstring, that tells two programs apart."""
    return (
        _inputs(new, old)
        or _shardings(new, old)
        or _constants(new, old)
        or _ops(new, old)
        or _exchanged(new, old)
        or _sizes(new, old)
        or _results(new, old)
        or _wiring(new, old)
        or CompileCause("again", SAME_PROGRAM)
    )


def _inputs(new: HloModule, old: HloModule) -> CompileCause | None:
    added, removed = difference(types_of(new), types_of(old))
    if not added and not removed:
        return None
    if len(new.entry.parameters()) != len(old.entry.parameters()):
        counts = f"{len(new.entry.parameters())} inputs, the graph before it {len(old.entry.parameters())}"
        ops = _ops(new, old)
        detail = f"{OF_INPUTS}{counts}" + (f"; {ops.detail}" if ops else "")
        return CompileCause("graph", detail, ops.source if ops else "", ops.more_ops if ops else 0)
    return _changed_inputs(new, old, _pair(removed, added))


def _exchanged(new: HloModule, old: HloModule) -> CompileCause | None:
    """The same ops, on inputs of the same types that are not where they were: the shapes of a batch change."""
    from tpuprof.model.compile.exchanged_inputs import exchanged_inputs

    pairs = exchanged_inputs(new, old)
    return _changed_inputs(new, old, pairs) if pairs else None


def _changed_inputs(new: HloModule, old: HloModule, pairs: list[tuple[Type, Type]]) -> CompileCause:
    kind = "dtype" if all(before[1] == after[1] for before, after in pairs) else "shape"
    changes = [_named_change(new, old, before, after) for before, after in pairs]
    noun = "an input" if len(pairs) == 1 else f"{len(pairs)} inputs"
    why = LAST_BATCH if _is_shorter_batch(pairs) else WEIGHTS if _are_weights(pairs, new, old) else ""
    detail = f"{noun} changed: {list_of(changes, 'inputs')}{why}"
    return CompileCause(kind, detail, _use_of(new, pairs[0][1]) or _use_of(old, pairs[0][0]))


def _named_change(new: HloModule, old: HloModule, before: Type, after: Type) -> str:
    """A changed input, with the argument's name where the programs have it."""
    # Imported here, as below: most runs compare no programs.
    from tpuprof.model.compile.exchanged_inputs import named_inputs

    was = {name: type_ for name, type_ in named_inputs(old).items() if type_ == before}
    name = next((name for name, type_ in named_inputs(new).items() if type_ == after and name in was), "")
    return f"{name + ' ' if name else ''}{typed(before)} became {typed(after)}"


def _is_shorter_batch(pairs: list[tuple[Type, Type]]) -> bool:
    """Whether inputs changed in nothing but their first dimension, all to the same smaller size."""
    sizes = set()
    for (before_type, before), (after_type, after) in pairs:
        if before_type != after_type or len(before) != len(after) or not before or before[1:] != after[1:]:
            return False
        sizes.add((before[0], after[0]))
    return len(sizes) == 1 and all(before > after for before, after in sizes)


def _are_weights(pairs: list[tuple[Type, Type]], new: HloModule, old: HloModule) -> bool:
    """Whether a model was built with other sizes: both programs return all that changed, and not in one dimension.

    Another batch changes the same dimension of all inputs, in a program that returns what it computes of each example.
    """
    before, after = (Counter(each) for each in zip(*pairs, strict=True))
    if before - Counter(result_types(old)) or after - Counter(result_types(new)):
        return False
    return len({_changed_dimensions(was, now) for (_, was), (_, now) in pairs}) > 1


def _changed_dimensions(was: tuple[int, ...], now: tuple[int, ...]) -> tuple[int, ...]:
    """Which dimensions differ; all where there are more or fewer of them."""
    if len(was) != len(now):
        return tuple(range(max(len(was), len(now))))
    return tuple(row for row, (a, b) in enumerate(zip(was, now, strict=True)) if a != b)


def _pair(removed: list[Type], added: list[Type]) -> list[tuple[Type, Type]]:
    """Match what went with what came: same shape first, then same dtype and rank, then whatever is left."""
    left: list[Type] = list(added)
    pairs: list[tuple[Type, Type]] = []
    rules: tuple[Callable[[Type, Type], bool], ...] = (
        lambda a, b: a[1] == b[1],
        lambda a, b: a[0] == b[0] and len(a[1]) == len(b[1]),
        lambda _a, _b: True,
    )
    waiting = list(removed)
    for rule in rules:
        for before in list(waiting):
            after = next((each for each in left if rule(before, each)), None)
            if after is not None:
                pairs.append((before, after))
                left.remove(after)
                waiting.remove(before)
    return pairs


def _shardings(new: HloModule, old: HloModule) -> CompileCause | None:
    def of(module: HloModule) -> Counter[str]:
        return Counter(each.attributes.get("sharding", "") for each in module.entry.parameters())

    added, removed = difference(of(new), of(old))
    if not added and not removed:
        return None
    changes = [
        f"{before or 'none'} became {after or 'none'}" for before, after in zip(removed, added, strict=False)
    ]
    place = next(
        (
            place
            for each in new.entry.parameters()
            if each.attributes.get("sharding", "") in added and (place := first_use(new, new.entry, each))
        ),
        "",
    )
    return CompileCause("sharding", f"the sharding of inputs changed: {list_of(changes)}", place)


def _constants(new: HloModule, old: HloModule) -> CompileCause | None:
    if not same_ops(new, old) and not _same_but_constants(new, old):
        return None
    added, removed = difference(literals_of(new), literals_of(old))
    if not added or not removed:
        return None
    changes = [f"{before} became {after}" for before, after in zip(removed, added, strict=False)]
    noun = "a constant" if len(changes) == 1 else f"{len(changes)} constants"
    # One of them may be used by ops without a source line alone, as those of a backward pass.
    places = chain(
        (place_of(new, each, literal_of, old) for each in added),
        (place_of(old, each, literal_of, new) for each in removed),
    )
    place = next((each for each in places if each), "")
    cause = CompileCause("constant", f"{noun} baked into the graph changed: {list_of(changes)}", place)
    return _with_all_lines(cause, new, old)


def _same_but_constants(new: HloModule, old: HloModule) -> bool:
    """Whether two programs hold another number of constants, and else the same ops: equal constants are one."""
    added, removed = difference(opcodes_of(new), opcodes_of(old))
    return {*added, *removed} == {"constant"}


def _with_all_lines(cause: CompileCause, new: HloModule, old: HloModule) -> CompileCause:
    """The cause with every line whose numbers changed; as it is where only its own line is known."""
    lines, others = changed_lines(new, old, (literal_of, _array, _setting, size_of))
    first, *more = lines or [cause.source]
    return replace(cause, source=first, also=tuple(more), others=others and bool(first))


def _ops(new: HloModule, old: HloModule) -> CompileCause | None:
    added, removed = (Counter(each) for each in difference(opcodes_of(new), opcodes_of(old)))
    parts = [f"{count} more {name}" for name, count in added.most_common()]
    parts += [f"{count} fewer {name}" for name, count in removed.most_common()]
    if not parts:
        return None
    detail = f"{OPS_CHANGED}: {list_of(parts)}"
    if _has_backward(old) and _names_ops(new) and not _has_backward(new) and _has_forward_of(old, new):
        detail += _NO_BACKWARD
    more = added.total() - removed.total()
    first, second = (new, old) if more >= 0 else (old, new)
    return CompileCause("graph", detail, odd_place(first, second) or odd_place(second, first), more)


def _sizes(new: HloModule, old: HloModule) -> CompileCause | None:
    """Ops that are the same but for a size, an array of constants or a padding: numbers of the program's Python."""
    for told, key in ((_SIZE, size_of), (BAKED_ARRAY, _array), (_SETTING, _setting)):
        added, removed = difference(counted(new, key), counted(old, key))
        if not added or not removed:
            continue
        if key is size_of:
            text = list_of([f"{was} became {now}" for was, now in zip(removed, added, strict=False)])
        else:
            text = ", ".join(dict.fromkeys(each.partition(" ")[0] for each in added))
        place = place_of(new, added[0], key, old) or place_of(old, removed[0], key, new)
        return _with_all_lines(CompileCause("constant", f"{told}: {text}", place), new, old)
    return None


def _results(new: HloModule, old: HloModule) -> CompileCause | None:
    """What the program returns, where inputs, ops and their sizes are the same: a shape that Python asked for."""
    after, before = result_types(new), result_types(old)
    root = new.entry.root
    place = source_of(root) if root is not None else ""
    if len(after) != len(before):
        return CompileCause(
            "graph", f"it returns {len(after)} results, the graph before it {len(before)}", place
        )
    changes = [
        f"{typed(was)} became {typed(now)}" for was, now in zip(before, after, strict=True) if was != now
    ]
    if not changes:
        return None
    noun = "a result" if len(changes) == 1 else f"{len(changes)} results"
    return CompileCause("constant", f"{noun} changed, and no input did: {list_of(changes)}", place)


def _wiring(new: HloModule, old: HloModule) -> CompileCause | None:
    """Ops that are the same and of the same sizes, but are given other values: another sample, another branch."""
    # Imported here: few programs compile again with the same ops.
    from tpuprof.model.compile.wiring import rewired

    place = rewired(new, old)
    return None if place is None else CompileCause("graph", REWIRED, place)


def _array(each: Instruction) -> str:
    value = each.attributes.get("value")
    shape = typed((each.shape.element_type, tuple(each.shape.dimensions)))
    return f"{shape} {value}" if value else ""


def _setting(each: Instruction) -> str:
    value = each.attributes.get("setting")
    return f"{each.opcode} {value}" if value else ""


def _has_backward(module: HloModule) -> bool:
    return any("backward" in each.op_name for each in module.instructions())


def _has_forward_of(old: HloModule, new: HloModule) -> bool:
    """Whether a program computes what the forward pass of another one does: the products of the same lines.

    A mean of losses has no backward pass either, and is no evaluation. A model without products is known by its lines.
    """

    def lines(module: HloModule, opcodes: Collection[str] = ()) -> set[str]:
        return {
            each.source
            for each in module.instructions()
            if not opcodes or each.opcode in opcodes or each.opcode == "custom-call"
        }

    products = [lines(module, PRODUCTS) for module in (old, new)]
    has, wanted = (products[1], products[0]) if products[0] else (lines(new) - {""}, lines(old) - {""})
    return bool(has & wanted) or (not products[0] and not (has and wanted))


def _names_ops(module: HloModule) -> bool:
    """Whether a program says what its ops are of: one that was traced without debug information does not."""
    return any(each.op_name for each in module.instructions())


def _use_of(module: HloModule, wanted: Type) -> str:
    """A source line of an op that uses an input of that type, first of one that joins it with more."""
    for parameter in module.entry.parameters():
        found = type_of(parameter) == wanted and (
            joined_at(module, parameter) or first_use(module, module.entry, parameter)
        )
        if found:
            return found
    return ""


def list_of(changes: list[str], noun: str = "times") -> str:
    """The first changes, each once with how often it is made, and how many more there are."""
    often = Counter(changes)
    told = [f"{each} ({count} {noun})" if count > 1 else each for each, count in often.items()]
    return listed(told, _SHOWN)
