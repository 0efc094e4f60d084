"""HLO text as the compiler prints it."""

import gzip

import pytest

from tpuprof.decode.hlo_text import parse_hlo_text, without_stack_frames
from tpuprof.errors import Code, TpuprofError

PROGRAM = """HloModule jit_step, is_scheduled=true, input_output_alias={ {0}: (1, {}, may-alias) }, entry_computation_layout={(f32[4]{0})->(f32[4]{0})}

FileNames
1 "/home/me/train.py"
2 "/lib/python3/torch.py"

FunctionNames
1 "main"

FileLocations
1 {file_name_id=1 function_name_id=1 line=12 end_line=12}
2 {file_name_id=2 function_name_id=1 line=99 end_line=99}

StackFrames
1 {file_location_id=2 parent_frame_id=2}
2 {file_location_id=1}


%fused (param_0: f32[4], param_1: f32[4]) -> f32[4] {
  %param_0 = f32[4]{0} parameter(0)
  %param_1 = f32[4]{0} parameter(1)
  ROOT %sum = f32[4]{0} add(%param_0, %param_1)
}

ENTRY %main.9 (a: f32[4], b: f32[4]) -> (f32[4], f32[4]) {
  %a = f32[4]{0} parameter(0)
  %b = f32[4]{0} parameter(1), sharding={replicated}
  %constant.1 = f32[2,2]{1,0} constant({ { 1, 2 },
 { 3, 4 } })
  %fusion.2 = f32[4]{0:T(256)S(1)} fusion(%a, /*index=1*/%b), kind=kLoop, calls=%fused, metadata={op_name="layer \\"one\\"/add" stack_frame_id=2}, backend_config={"window_config":{"estimated_cycles":"1234"},"x":"}"}
  %copy-start = (f32[4]{0:S(5)}, f32[4]{0}, u32[]{:S(2)}) copy-start(%fusion.2)
  %gte = f32[4]{0} get-tuple-element(%pair), index=0, frontend_attributes={kernel_metadata={
  "name"
}}
  %host = f32[4]{0:S(5)} copy-done(%copy-start), metadata={op_name="o" source_file="/x.py" source_line=3}
  ROOT %tuple = (f32[4]{0}, f32[4]{0}) tuple(f32[4]{0} %fusion.2, f32[4]{0} %b)
}
"""


def test_structure():
    module = parse_hlo_text(PROGRAM)
    assert (module.name, module.entry_name, module.is_scheduled) == ("jit_step", "main.9", True)
    assert list(module.computations) == ["fused", "main.9"]
    assert [each.name for each in module.entry] == [
        "a", "b", "constant.1", "fusion.2", "copy-start", "gte", "host", "tuple",
    ]  # fmt: skip
    assert module.entry.root.name == "tuple"
    assert module.aliases == {1: 0}
    assert [each.name for each in module.entry.parameters()] == ["a", "b"]
    assert module.fused_names == {"fused"}


def test_an_instruction_in_full():
    fusion = parse_hlo_text(PROGRAM).entry.instructions["fusion.2"]
    assert fusion.opcode == "fusion"
    assert fusion.operands == ["a", "b"]
    assert fusion.called == {"calls": ["fused"]}
    assert fusion.attributes["kind"] == "kLoop"
    assert fusion.estimated_cycles == 1234
    assert fusion.op_name == 'layer "one"/add'
    assert fusion.source == "/home/me/train.py:12"
    assert fusion.shape.memory_space == 1
    assert "metadata" not in fusion.text
    assert "backend_config" not in fusion.text


def test_operands_written_with_shapes_and_source_written_in_place():
    entry = parse_hlo_text(PROGRAM).entry
    assert entry.instructions["tuple"].operands == ["fusion.2", "b"]
    assert entry.instructions["host"].source == "/x.py:3"
    assert entry.instructions["host"].estimated_cycles is None
    assert entry.instructions["gte"].attributes["index"] == "0"


def test_source_tables_can_be_left_out_for_older_readers():
    tables = (
        'FileNames\n1 "train.py"\n\nFunctionNames\n1 "main"\n\nFileLocations\n'
        "1 {file_name_id=1 function_name_id=1 line=7 end_line=7 column=1 end_column=2}\n\n"
        "StackFrames\n1 {file_location_id=1 parent_frame_id=0}\n\n\n"
    )
    entry = (
        "ENTRY %e (p: f32[2]) -> f32[2] {\n  %p = f32[2] parameter(0)\n"
        '  ROOT %n = f32[2] negate(%p), metadata={op_name="a stack_frame_id=3" stack_frame_id=1}\n}\n'
    )
    text = f"HloModule m\n\n{tables}{entry}"
    found = without_stack_frames(text)
    assert "FileNames" not in found and "train.py" not in found
    assert 'metadata={op_name="a stack_frame_id=3"}' in found
    assert parse_hlo_text(text).entry.root.source == "train.py:7"
    assert [each.text for each in parse_hlo_text(found).instructions()] == [
        each.text for each in parse_hlo_text(text).instructions()
    ]


def test_other_text_is_refused():
    with pytest.raises(TpuprofError) as caught:
        parse_hlo_text("PK\x03\x04")
    assert caught.value.code is Code.UNKNOWN_FORMAT


@pytest.mark.parametrize("cut", range(0, len(PROGRAM), 37))
def test_cut_text_never_breaks_the_parser(cut):
    text = PROGRAM[:cut]
    if text.startswith("HloModule j"):
        parse_hlo_text(text)


@pytest.mark.shared_traces
def test_a_real_training_step(shared_traces):
    path = shared_traces / "tpu_train_hlo" / "jit_train_step.after_optimizations.hlo.txt.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    module = parse_hlo_text(text)
    assert module.is_scheduled
    assert len(module.computations) == text.count("\n}\n") + text.count("\n}, execution_thread")
    assert all(
        name in each.instructions
        for each in module.computations.values()
        for i in each
        for name in i.operands
    )
    assert all(name in module.computations for i in module.instructions() for name in i.called_names())
    loops = [
        (each.source.rsplit("/", 1)[-1], module.trip_count(each, computation))
        for computation in module.computations.values()
        for each in computation
        if each.opcode == "while"
    ]
    # 32 layers forward and backward; the loss goes over 32 blocks of rows, each over 63 of the 129,024 columns'
    # blocks of 2,048.
    assert sorted(loops) == [
        ("chunked_xla.py:131", 63), ("chunked_xla.py:152", 32), ("modeling_llama3.py:975", 32),
        ("modeling_llama3.py:975", 32), ("op.py:293", 32), ("op.py:293", 63),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cycles", "read"), [((1 << 63) - 1, None), (1 << 62, None), ((1 << 62) - 1, (1 << 62) - 1)]
)
def test_the_largest_number_of_cycles_is_no_estimate(cycles, read):
    """As libtpu writes it of some fusions: a step of 6.1e12 ms was predicted of it."""
    text = f"""HloModule step, is_scheduled=true

ENTRY %main (a: f32[8]) -> f32[8] {{
  %a = f32[8]{{0}} parameter(0)
  ROOT %b = f32[8]{{0}} add(%a, %a), backend_config={{"window_config":{{"estimated_cycles":"{cycles}"}}}}
}}
"""
    assert parse_hlo_text(text).entry.instructions["b"].estimated_cycles == read
