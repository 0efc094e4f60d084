"""What changed between two programs, on programs written out."""

from collections import Counter

import pytest

from tpuprof.decode import hlo_pb2
from tpuprof.decode.hlo_proto import from_proto
from tpuprof.decode.hlo_text import parse_hlo_text
from tpuprof.decode.limited import PROGRAMS_KEPT
from tpuprof.decode.load import load
from tpuprof.model.compile import programs
from tpuprof.model.compile.cause import LAST_BATCH, NOT_THE_LAST, WEIGHTS, compare, explain
from tpuprof.model.compile.compiles import Compile, without_last_batch
from tpuprof.model.compile.hlo_metadata import hlo_protos
from tpuprof.model.compile.outline import (
    Outline,
    counted,
    literals_of,
    opcodes_of,
    outline_of,
    result_types,
    size_of,
    types_of,
)


def program(
    x="f32[4,8]",
    rate="0.1",
    extra="",
    sharding="",
    parameters="",
    metadata='metadata={op_name="a" source_file="m.py" source_line=7}',
):
    sharding = f", sharding={{{sharding}}}" if sharding else ""
    return parse_hlo_text(
        f"""HloModule step.1

ENTRY %main (x: {x}) -> {x} {{
  %x = {x}{{1,0}} parameter(0){sharding}
{parameters}  %rate = f32[] constant({rate})
  %scaled = {x}{{1,0}} multiply(%x, %rate), {metadata}
{extra}  ROOT %out = {x}{{1,0}} add(%scaled, %x)
}}
"""
    )


@pytest.mark.parametrize(
    ("change", "kind", "detail"),
    [
        ({"x": "f32[4,9]"}, "shape", "f32[4,8] became f32[4,9]"),
        ({"x": "bf16[4,8]"}, "dtype", "f32[4,8] became bf16[4,8]"),
        ({"rate": "0.2"}, "constant", "0.1 became 0.2"),
        ({"sharding": "replicated"}, "sharding", "became {replicated}"),
        ({"extra": "  %e = f32[4,8]{1,0} exponential(%x)\n"}, "graph", "1 more exponential"),
        (
            {"parameters": "  %y = f32[4,8]{1,0} parameter(1)\n"},
            "graph",
            "takes 2 inputs, the graph before it 1",
        ),
        ({}, "again", "same inputs"),
    ],
)
def test_what_changed(change, kind, detail):
    cause = compare(program(**change), program())
    assert cause.kind == kind
    assert detail in cause.detail


FLIPPED = """HloModule step.1

%flip (v: f32[2]) -> f32[2] {
  %v = f32[2]{0} parameter(0)
  ROOT %back = f32[2]{0} reverse(%v), dimensions={0}, metadata={source_file="m.py" source_line=9}
}

ENTRY %main (x: f32[2], y: f32[2]) -> f32[2] {
  %x = f32[2]{0} parameter(0)
  %y = f32[2]{0} parameter(1)
  %flipped = f32[2]{0} fusion(%FLIPPED), kind=kLoop, calls=%flip, metadata={source_file="m.py" source_line=9}
  %moved = f32[2]{0} negate(%MOVED)
  ROOT %out = f32[2]{0} subtract(%flipped, %moved), metadata={source_file="m.py" source_line=12}
}
"""


def flipped(first):
    """One of two samples is flipped, as a coin of Python's decides."""
    return parse_hlo_text(FLIPPED.replace("FLIPPED", first).replace("MOVED", "y" if first == "x" else "x"))


def test_the_same_ops_on_another_sample_are_another_program():
    """Of a coin's flips "a new function object, a cleared cache" was said."""
    cause = compare(flipped("x"), flipped("y"))
    assert (cause.kind, cause.source) == ("graph", "m.py:9")
    assert "work on other values" in cause.detail
    assert compare(flipped("x"), flipped("x")).kind == "again"


def test_another_order_of_the_same_ops_is_the_same_program():
    rows = FLIPPED.replace("FLIPPED", "x").replace("MOVED", "y").splitlines()
    at = next(at for at, row in enumerate(rows) if "%flipped =" in row)
    rows[at], rows[at + 1] = rows[at + 1], rows[at]
    assert compare(parse_hlo_text("\n".join(rows)), flipped("x")).kind == "again"


SLICED = """HloModule step.1

%parallel (v: f32[SIZE]) -> f32[SIZE] {
  %v = f32[SIZE]{0} parameter(0)
  ROOT %doubled = f32[SIZE]{0} add(%v, %v)
}

ENTRY %main (x: f32[32]) -> f32[SIZE] {
  %x = f32[32]{0} parameter(0)
  %part = f32[SIZE]{0} slice(%x), slice={[0:SIZE]}, metadata={source_file="m.py" source_line=5}
  ROOT %out = f32[SIZE]{0} CALLED
}
"""


def test_a_call_that_the_compiler_puts_around_an_op_is_no_op_of_the_program():
    """A static argument cut a batch to another length: "the ops changed: 1 more call", and no advice named it."""
    called = "call(%part), to_apply=%parallel"
    long, short = (
        parse_hlo_text(SLICED.replace("SIZE", length).replace("CALLED", how))
        for length, how in (("19", called), ("16", "fusion(%part), kind=kLoop, calls=%parallel"))
    )
    cause = compare(long, short)
    assert (cause.kind, cause.source) == ("constant", "m.py:5")
    assert "[0:16]" in cause.detail and "[0:19]" in cause.detail


PASTED = """HloModule step.1

ENTRY %main (x: f32[64]) -> f32[64] {
  %x = f32[64]{0} parameter(0)
  %none = f32[] constant(0)
  %left = f32[AT]{0} slice(%x), slice={[0:AT]}, metadata={source_file="m.py" source_line=5}
  %first = f32[AT]{0} broadcast(%none), dimensions={}
MORE  %sum = f32[AT]{0} OP(%left, %first)
  ROOT %out = f32[64]{0} pad(%sum, %none), padding=0_0
}
"""


def pasted(at, more="", op="add"):
    return parse_hlo_text(PASTED.replace("AT", at).replace("MORE", more).replace("OP", op))


@pytest.mark.parametrize(("op", "kind"), [("add", "constant"), ("maximum", "graph")])
def test_broadcasts_that_are_merged_are_no_other_ops(op, kind):
    """CutMix pastes at random places: one of three compiles was "the ops changed: 1 fewer broadcast"."""
    more = "  %second = f32[7]{0} broadcast(%none), dimensions={}\n"
    cause = compare(pasted("20", op=op), pasted("34", more))
    assert cause.kind == kind
    assert cause.kind == "graph" or cause.source == "m.py:5"


def test_an_op_removed():
    assert (
        "1 fewer exponential"
        in compare(program(), program(extra="  %e = f32[4,8]{1,0} exponential(%x)\n")).detail
    )


@pytest.mark.parametrize(("metadata", "said"), [('metadata={op_name="forward"}', True), ("", False)])
def test_a_backward_pass_is_gone_only_where_the_program_names_its_ops(metadata, said):
    """A program that was traced without debug information names none, whatever it computes."""
    old = program(extra="  %e = f32[4,8]{1,0} exponential(%x)\n", metadata='metadata={op_name="a_backward"}')
    assert ("the backward pass is gone" in compare(program(metadata=metadata), old).detail) is said


def model(*ops):
    """A program whose products and sums are of given lines: `opcode`, line, what the op is of."""
    rows = "".join(
        f'  %o{row} = f32[8,8] {opcode}(%x, %x), metadata={{op_name="{name}" source_file="m.py" source_line={line}}}\n'
        for row, (opcode, line, name) in enumerate(ops)
    )
    return parse_hlo_text(
        f"HloModule step.1\n\nENTRY %main (x: f32[8,8]) -> f32[8,8] {{\n  %x = f32[8,8] parameter(0)\n{rows}"
        "  ROOT %out = f32[8,8] copy(%x)\n}\n"
    )


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ([("dot", 5, "aten__mm")], True),
        ([("add", 74, "aten__mean")], False),
        # A statistic has a product of its own.
        ([("dot", 74, "aten__mm")], False),
    ],
)
def test_a_backward_pass_is_gone_only_where_the_forward_pass_is_left(new, said):
    old = model(("dot", 5, "aten__mm"), ("dot", 0, "aten__mm_backward"), ("add", 6, "aten__add"))
    assert ("the backward pass is gone" in compare(model(*new), old).detail) is said


def test_the_line_is_of_an_op_that_uses_what_changed():
    assert compare(program(x="f32[4,9]"), program()).source == "m.py:7"
    # The new program tells no lines where it was traced without them: then the old one's line counts.
    assert compare(program(x="f32[4,9]", metadata=""), program()).source == "m.py:7"
    assert compare(program(x="f32[4,9]", metadata=""), program(metadata="")).source == ""


def fed(bounds, line=9, *, lines=True):
    """An encoder's loop takes columns 0 to 2 at line 7; a decoder takes one column at another line."""
    columns = [*((column, 7) for column in range(3)), (bounds, line)]
    ops = "".join(
        f"  %s{row} = f32[4,1]{{1,0}} slice(%x), slice={{[0:4], [{at}:{at + 1}]}}"
        + (f', metadata={{op_name="a" source_file="m.py" source_line={where}}}\n' if lines else "\n")
        for row, (at, where) in enumerate(columns)
    )
    return parse_hlo_text(
        f"HloModule step.1\n\nENTRY %main (x: f32[4,8]) -> f32[4,1] {{\n"
        f"  %x = f32[4,8]{{1,0}} parameter(0)\n{ops}  ROOT %out = f32[4,1]{{1,0}} add(%s2, %s3)\n}}\n"
    )


@pytest.mark.parametrize(("line", "named"), [(9, "m.py:9"), (7, "m.py:7")])
def test_a_line_whose_same_constant_did_not_change_is_not_named(line, named):
    """The new bounds are also those of a slice at line 7, which both programs have."""
    cause = compare(fed(1, line), fed(5, line))
    assert (cause.kind, cause.source) == ("constant", named)


@pytest.mark.parametrize(("old", "named"), [(5, ""), (1, "m.py:9")])
def test_of_two_lines_none_is_named_where_the_other_program_tells_none(old, named):
    """The program without lines has column 1, too, so which line has it no longer is unknown; column 5 it has not."""
    with_lines, without = (fed(1), fed(old, lines=False)) if old == 5 else (fed(5), fed(old, lines=False))
    cause = compare(with_lines, without)
    assert (cause.kind, cause.source) == ("constant", named)


def test_a_shape_change_outweighs_what_follows_from_it():
    cause = compare(program(x="f32[4,9]", rate="0.3"), program())
    assert cause.kind == "shape"


def test_what_cannot_be_told_says_why():
    assert "did not run" in explain("", [], {}).detail
    assert "holds no HLO" in explain("g(1)", [], {}).detail
    assert explain("g(1)", [], {"g(1)": b""}).kind == "first"
    assert "damaged" in explain("g(1)", ["g(0)"], {"g(1)": b"\xff", "g(0)": b"\xff"}).detail


def inner(size=40, low=0, value="4", metadata='metadata={op_name="a" source_file="m.py" source_line=9}'):
    """A program with one input, whose Python sets a size, a padding or an array inside."""
    module = parse_hlo_text(
        f"""HloModule step.1

ENTRY %main (x: f32[8]) -> f32[8] {{
  %x = f32[8]{{0}} parameter(0)
  %array = f32[{value}]{{0}} constant({{...}})
  %row = s32[{size}]{{0}} iota(), iota_dimension=0, {metadata}
  ROOT %out = f32[8]{{0}} pad(%x, %x), padding={low}_{low}, {metadata}
}}
"""
    )
    module.entry.instructions["out"].attributes["setting"] = f"{low:08x}"
    module.entry.instructions["array"].attributes["value"] = value
    return module


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"size": 44}, "a size in the graph changed, and no input did: iota s32[40] became iota s32[44]"),
        ({"low": 2}, "the padding or window of an op changed: pad"),
    ],
)
def test_a_size_or_padding_inside_is_a_number_of_the_program(change, detail):
    cause = compare(inner(**change), inner())
    assert (cause.kind, cause.detail, cause.source) == ("constant", detail, "m.py:9")


def test_an_array_of_constants_that_changed_is_not_the_same_program():
    old, new = inner(), inner()
    new.entry.instructions["array"].attributes["value"] = "other"
    cause = compare(new, old)
    assert (cause.kind, cause.detail) == (
        "constant",
        "an array of constants baked into the graph changed: f32[4]",
    )
    assert compare(inner(), inner()).kind == "again"


def drawn(result, *, inside="f32[8]", name="draw.1"):
    """A program that draws the same numbers, and returns them in a shape that Python asked for."""
    return parse_hlo_text(
        f"""HloModule {name}

ENTRY %main (key: u32[2]) -> {result} {{
  %key = u32[2]{{0}} parameter(0)
  %numbers = {inside}{{0}} custom-call(%key), custom_call_target="rng"
  ROOT %out = {result} reshape(%numbers), metadata={{op_name="a" source_file="m.py" source_line=4}}
}}
"""
    )


@pytest.mark.parametrize(
    ("before", "after", "kind", "detail"),
    [
        ("f32[8]", "f32[2,4]", "constant", "a result changed, and no input did: f32[8] became f32[2,4]"),
        ("f32[]", "f32[1]", "constant", "a result changed, and no input did: f32[] became f32[1]"),
        (
            "(f32[2], f32[4])",
            "(f32[3], f32[5])",
            "constant",
            "2 results changed, and no input did: f32[2] became f32[3], f32[4] became f32[5]",
        ),
        ("(f32[8])", "(f32[8], f32[8])", "graph", "it returns 2 results, the graph before it 1"),
    ],
)
def test_programs_that_differ_in_their_results_alone_are_two(before, after, kind, detail):
    cause = compare(drawn(after), drawn(before))
    assert (cause.kind, cause.detail, cause.source) == (kind, detail, "m.py:4")
    assert compare(drawn(after), drawn(after)).kind == "again"


def test_of_equally_near_programs_the_one_of_the_same_sizes_is_compared():
    one, other = embedded(4, results=5), embedded(4, results=6)
    protos = {"draw(1)": one, "draw(2)": other, "draw(3)": other}
    assert explain("draw(3)", ["draw(1)", "draw(2)"], protos).kind == "again"
    assert explain("draw(3)", ["draw(1)"], protos).kind == "constant"


def called(*arguments):
    """A program with a parameter for each (name, type)."""
    lines = [
        f'  %p{row} = {type_}{{1,0}} parameter({row}), metadata={{op_name="{name}"}}'
        for row, (name, type_) in enumerate(arguments)
    ]
    body = "\n".join(lines)
    return parse_hlo_text(f"HloModule step.1\n\nENTRY %main () -> f32[4,8] {{\n{body}\n}}\n")


@pytest.mark.parametrize("name", ["batch", "state.params['up'][0]", "args[0]"])
def test_a_changed_input_has_the_name_of_the_argument(name):
    before = called(("w", "f32[8,8]"), (name, "f32[4,8]"))
    cause = compare(called(("w", "f32[8,8]"), (name, "f32[5,8]")), before)
    assert cause.detail.startswith(f"an input changed: {name} f32[4,8] became f32[5,8]")


@pytest.mark.parametrize("name", ["xla__device_data", "jit(f)/add", ""])
def test_a_name_that_is_no_argument_is_left_out(name):
    cause = compare(called((name, "f32[5,8]")), called((name, "f32[4,8]")))
    assert cause.detail.startswith("an input changed: f32[4,8] became f32[5,8]")


def test_one_name_for_all_inputs_names_none():
    cause = compare(
        called(("x", "f32[8,8]"), ("x", "f32[5,8]")), called(("x", "f32[8,8]"), ("x", "f32[4,8]"))
    )
    assert cause.detail.startswith("an input changed: f32[4,8] became f32[5,8]")


def embedded(rows, second=b"exponential", results=0, line=0):
    """A program that does something with so many rows, and has as many in its result where that is not stated."""
    proto = hlo_pb2.HloProto()
    module = proto.hlo_module
    module.name, module.entry_computation_name = b"step", b"main"
    main = module.computations.add(id=1, name=b"main", root_id=2)
    for key, opcode in ((1, b"parameter"), (2, second)):
        each = main.instructions.add(id=key, opcode=opcode, name=opcode + b".%d" % key)
        each.shape.element_type = 11
        each.shape.dimensions.extend(((results if key == 2 else 0) or rows, 8))
        each.operand_ids.extend([1] if key == 2 else [])
        if line and key == 2:
            each.metadata.source_file, each.metadata.source_line = b"m.py", line
    return proto.SerializeToString()


def test_each_program_is_read_twice_at_most_however_many_compiles_there_are(monkeypatch):
    """Once for what it holds, once where it is compared. As counted, not as timed."""
    read, parse = [], programs._parse
    monkeypatch.setattr(programs, "_parse", lambda data: (read.append(data), parse(data))[1])
    count = 4 * PROGRAMS_KEPT
    protos = {f"step({row})": embedded(100 + row) for row in range(count)}
    names = list(protos)
    for _host in range(3):
        host = programs.Programs(dict(protos))
        causes = [explain(name, names[:row][::-1], host) for row, name in enumerate(names)]
    assert [each.kind for each in causes] == ["first", *["shape"] * (count - 1)]
    assert causes[5].detail == "an input changed: f32[104,8] became f32[105,8]"
    # Compared are a program and the nearest before it, once for all hosts.
    assert len(read) <= 3 * count


def test_of_equally_near_programs_the_newest_before_is_compared():
    protos = {"step(1)": embedded(1), "step(2)": embedded(2), "step(3)": embedded(3)}
    assert "f32[2,8] became f32[3,8]" in explain("step(3)", ["step(2)", "step(1)"], protos).detail


def test_a_program_with_lines_gives_the_place_and_not_what_changed():
    """Programs compiled before the capture have lines, those in it none: 1 to 3 was said where 2 was the last."""
    protos = {"step(1)": embedded(1, line=7), "step(2)": embedded(2), "step(3)": embedded(3)}
    found = explain("step(3)", ["step(2)", "step(1)"], protos)
    assert (found.detail, found.source) == ("an input changed: f32[2,8] became f32[3,8]", "m.py:7")


def test_a_cause_says_where_the_graph_compared_is_not_the_last_one():
    """The last graph has another op, so an older one is nearer."""
    protos = {"step(1)": embedded(1), "step(2)": embedded(2), "step(3)": embedded(3)}
    assert NOT_THE_LAST not in explain("step(3)", ["step(2)", "step(1)"], protos).detail
    far = {**protos, "step(2)": embedded(2, b"negate")}
    found = explain("step(3)", ["step(2)", "step(1)"], far)
    assert "f32[1,8] became f32[3,8]" in found.detail and found.detail.endswith(f"({NOT_THE_LAST})")


@pytest.mark.parametrize(("steps", "said"), [((3,), True), ((3, 3), True), ((3, 4), False)])
def test_a_shorter_batch_is_an_epochs_last_only_where_one_step_has_one(steps, said):
    """Batches of any length are shorter than the one before in half of all steps."""
    cause = compare(program(x="f32[3,8]"), program())
    assert LAST_BATCH in cause.detail
    compiles = [Compile(step, "", "", 0, 1, cause) for step in steps]
    assert all((LAST_BATCH in each.cause.detail) is said for each in without_last_batch(compiles))


def test_an_outline_from_the_message_is_that_of_the_instructions(samples):
    """Large programs are compared by their messages alone."""
    trace = load(next((samples / "predicted_decoder_fsdpv2").rglob("*.xplane.pb")))
    found = [programs._message(data) for _, data in hlo_protos(trace)]
    assert found and None not in found
    for message in found:
        module = from_proto(message)
        assert outline_of(message) == Outline(
            types_of(module),
            opcodes_of(module),
            literals_of(module),
            counted(module, size_of),
            Counter(result_types(module)),
            any(each.source for each in module.instructions()),
        )


def update(width, batch=16, kept=2, returned="{kernel}, {bias}"):
    """A step that returns the weights it updates, of a layer of that width, and computes on a batch."""
    kernel, bias, x = f"f32[64,{width}]", f"f32[{width}]", f"f32[{batch},{kept}]"
    types = returned.format(kernel=kernel, bias=bias, x=x)
    names = returned.format(kernel="%k", bias="%b", x="%x")
    return parse_hlo_text(
        f"""HloModule step.1

ENTRY %main (x: {x}, k: {kernel}, b: {bias}) -> ({types}) {{
  %x = {x}{{1,0}} parameter(0)
  %k = {kernel}{{1,0}} parameter(1)
  %b = {bias}{{0}} parameter(2)
  ROOT %out = ({types}) tuple({names})
}}
"""
    )


@pytest.mark.parametrize(
    ("new", "weights"),
    [
        ({"width": 9}, True),
        # A batch of another length, of an autoencoder that returns as much, and a model whose weights stay inside.
        ({"width": 8, "batch": 12}, False),
        ({"width": 8, "batch": 12, "returned": "{kernel}, {x}"}, False),
        ({"width": 9, "returned": "{x}"}, False),
        ({"width": 9, "batch": 12}, False),
    ],
)
def test_weights_that_change_shape_are_those_that_the_program_returns(new, weights):
    old = update(returned=new.get("returned", "{kernel}, {bias}"), width=8)
    cause = compare(update(**new), old)
    assert cause.kind == "shape"
    assert (WEIGHTS in cause.detail) is weights


def sliced(*starts, rows=9):
    """A program that takes rows of its input, each at a bound that Python gave."""
    proto = hlo_pb2.HloProto()
    module = proto.hlo_module
    module.name, module.entry_computation_name = b"step", b"main"
    main = module.computations.add(id=1, name=b"main", root_id=1 + len(starts))
    given = main.instructions.add(id=1, opcode=b"parameter", name=b"parameter.1")
    given.shape.element_type = 11
    given.shape.dimensions.append(rows)
    for key, start in enumerate(starts, 2):
        each = main.instructions.add(id=key, opcode=b"slice", name=b"slice.%d" % key)
        each.shape.element_type = 11
        each.shape.dimensions.append(1)
        each.operand_ids.append(1)
        each.slice_dimensions.add(start=start, limit=start + 1, stride=1)
        each.metadata.source_file, each.metadata.source_line = b"m.py", 53
    return proto.SerializeToString()


@pytest.mark.parametrize(
    ("earlier", "kind"),
    [
        # Teacher forcing: a coin for each word decides which rows are read, and how many.
        ([(1,), (1, 2, 3), (2, 5)], "graph"),
        # A row of a buffer that moves, and is read in one piece less at its end.
        ([(1,), (2, 4), (2, 5)], "constant"),
        ([(2, 5)], "constant"),
    ],
)
def test_slices_of_which_python_decides_how_many_there_are_are_no_numbers(earlier, kind):
    programs = {f"step({row})": sliced(*starts) for row, starts in enumerate([*earlier, (3, 6)])}
    *known, last = programs
    found = explain(last, known[::-1], programs)
    assert (found.kind, found.source) == (kind, "m.py:53")
    assert ("Python decides which" in found.detail) is (kind == "graph")


def test_programs_of_other_inputs_tell_nothing_of_slices():
    others = [sliced(*range(count), rows=20) for count in range(3, 7)]
    programs = {f"step({row})": each for row, each in enumerate([*others, sliced(2, 5), sliced(3, 6)])}
    *known, last = programs
    assert explain(last, known[::-1], programs).kind == "constant"


def banked(rows, fused=False):
    """A program that compares a batch with a bank of rows at line 25, and joins both at line 31."""
    joined = (
        f"""  ROOT %new = f32[{rows + 64},8]{{1,0}} fusion(%bank, %x), kind=kLoop, calls=%joins"""
        if fused
        else f"""  ROOT %new = f32[{rows + 64},8]{{1,0}} concatenate(%bank, %x), dimensions={{0}}, {JOINED}"""
    )
    return parse_hlo_text(
        f"""HloModule step.1

%joins (a: f32[{rows},8], b: f32[64,8]) -> f32[{rows + 64},8] {{
  %a = f32[{rows},8]{{1,0}} parameter(0)
  %b = f32[64,8]{{1,0}} parameter(1)
  ROOT %both = f32[{rows + 64},8]{{1,0}} concatenate(%a, %b), dimensions={{0}}, {JOINED}
}}

ENTRY %main (bank: f32[{rows},8], x: f32[64,8]) -> f32[{rows + 64},8] {{
  %bank = f32[{rows},8]{{1,0}} parameter(0)
  %x = f32[64,8]{{1,0}} parameter(1)
  %compared = f32[{rows},8]{{1,0}} negate(%bank), metadata={{op_name="a" source_file="m.py" source_line=25}}
{joined}
}}
"""
    )


JOINED = 'metadata={op_name="b" source_file="m.py" source_line=31}'


@pytest.mark.parametrize("fused", [False, True])
def test_an_input_that_grows_does_so_where_it_is_joined_with_more(fused):
    """The line that compares with a memory bank was named, and not `bank = torch.cat([bank, new])`."""
    cause = compare(banked(192, fused), banked(128, fused))
    assert (cause.kind, cause.source) == ("shape", "m.py:31")


def fused_mask(length, copied):
    """A fusion that makes a mask at line 20, and looks a batch of tokens up at line 34, or a copy of it."""
    said = 'metadata={{op_name="a" source_file="m.py" source_line={}}}'
    mask, lookup = said.format(20), said.format(34)
    return parse_hlo_text(
        f"""HloModule step.1

%looks (t: s64[16,{length}], w: f32[]) -> f32[16,{length}] {{
  %t = s64[16,{length}]{{1,0}} parameter(0)
  %w = f32[] parameter(1)
  %mask = f32[16,{length}]{{1,0}} broadcast(%w), dimensions={{}}, {mask}
  %as = f32[16,{length}]{{1,0}} convert(%t)
  %found = f32[16,{length}]{{1,0}} negate(%as), {lookup}
  ROOT %both = f32[16,{length}]{{1,0}} add(%found, %mask)
}}

ENTRY %main (tokens: s64[16,{length}], w: f32[]) -> f32[16,{length}] {{
  %tokens = s64[16,{length}]{{1,0}} parameter(0)
  %w = f32[] parameter(1)
  %moved = s64[16,{length}]{{1,0}} copy(%tokens)
  ROOT %out = f32[16,{length}]{{1,0}} fusion({"%moved" if copied else "%tokens"}, %w), kind=kLoop, calls=%looks
}}
"""
    )


@pytest.mark.parametrize("copied", [False, True])
def test_a_changed_input_is_used_where_the_ops_of_a_fusion_work_on_it(copied):
    """Line 20 made a mask of the new length, and was named for `s64[16,26] became s64[16,27]`."""
    assert compare(fused_mask(27, copied), fused_mask(26, copied)).source == "m.py:34"


def test_constants_that_became_equal_are_one_and_no_other_op():
    """A weight of 0.2 beside a rate of 0.1, and then one of 0.3 beside 0.3: XLA keeps one of two equal constants."""
    two = "  %w = f32[] constant(0.2)\n  %more = f32[4,8]{1,0} multiply(%x, %w)\n"
    one = "  %more = f32[4,8]{1,0} multiply(%x, %rate)\n"
    cause = compare(program(rate="0.3", extra=one), program(rate="0.1", extra=two))
    assert cause.kind == "constant"
    assert "0.3" in cause.detail
