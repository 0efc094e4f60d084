"""Programs given as files: known by content, each module of a dump once, and read or refused."""

import gzip
from pathlib import Path

import pytest

from tests.preflight import programs
from tpuprof.decode import hlo_pb2
from tpuprof.decode.hlo_text import parse_hlo_text
from tpuprof.errors import Code, TpuprofError
from tpuprof.preflight.compiler import CompileOptions
from tpuprof.preflight.given import module_memory, preflight_programs
from tpuprof.preflight.hlo_report import OPTIMIZED_TPU, UNOPTIMIZED, hlo_report, report_dict
from tpuprof.preflight.program_files import AFTER, Program, program_kind, read_programs, to_graph
from tpuprof.preflight.targets import parse_target

PROTO = programs.graph().proto
OPTIMIZED = """HloModule step, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }

ENTRY %main (w: f32[1024,1000], x: bf16[8,1000]) -> (f32[1024,1000], f32[]) {
  %w = f32[1024,1000]{1,0:T(8,128)} parameter(0)
  %x = bf16[8,1000]{1,0:T(8,128)(2,1)} parameter(1)
  %gathered = f32[4096,1000]{1,0:T(8,128)} all-gather(%w), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}
  %kernel = f32[1024,1000]{1,0:T(8,128)} custom-call(%gathered), custom_call_target="tpu_custom_call"
  %loss = f32[]{:T(128)} custom-call(%kernel), custom_call_target="other"
  ROOT %out = (f32[1024,1000]{1,0:T(8,128)}, f32[]{:T(128)}) tuple(%kernel, %loss)
}
"""
MIB_PADDED = 1024 * 1024 * 4


def program(text: str = OPTIMIZED) -> Program:
    return Program("step", Path("step.txt"), "hlo-text", PROTO, parse_hlo_text(text))


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.bin", b"ML\xefR\rStableHLO_v1.9.0", "stablehlo"),
        ("a.mlir", b"#loc1 = loc(unknown)\nmodule @jit_step {\n  func.func public @main() {", "stablehlo"),
        ("a.txt", b"HloModule jit_step, entry_computation_layout={}", "hlo-text"),
        ("a.hlo.pb", PROTO, "hlo-proto"),
        ("a.hlo.pb.gz", gzip.compress(PROTO), "hlo-proto"),
        ("host.xplane.pb", b"", "capture"),
        ("train.py", b"module = HloModule func", ""),
        ("notes.txt", b"module notes on a func", ""),
        ("weights.pb", b"\x00\x01\x02", ""),
    ],
)
def test_a_file_is_known_by_its_content(tmp_path, name, data, kind):
    (tmp_path / name).write_bytes(data)
    assert program_kind(tmp_path / name) == kind


def test_each_module_of_a_dump_counts_once(tmp_path):
    for stage in ("before_optimizations", "after_optimizations"):
        for number, name in enumerate(("jit_init", "jit_step")):
            module = hlo_pb2.HloModuleProto.FromString(PROTO)
            module.name = f"{name} {stage}".encode()
            path = tmp_path / f"module_000{number}.{name}.cpu_{stage}.hlo.pb"
            path.write_bytes(module.SerializeToString())
            path.rename(tmp_path / f"module_000{number}.{name}.{stage}.hlo.pb")
    (tmp_path / "module_0000.jit_init.after_optimizations-buffer-assignment.txt").write_text("no program")
    assert program_kind(tmp_path) == "folder"
    before, after = (
        read_programs(tmp_path, CompileOptions(), stage) for stage in ("before_optimizations", AFTER)
    )
    assert {each.module.name for each in before} == {
        "jit_init before_optimizations",
        "jit_step before_optimizations",
    }
    assert {each.module.name for each in after} == {
        "jit_init after_optimizations",
        "jit_step after_optimizations",
    }


def test_a_folder_with_a_capture_is_a_capture(tmp_path):
    (tmp_path / "graph.hlo.pb").write_bytes(PROTO)
    (tmp_path / "host.xplane.pb").write_bytes(b"")
    assert program_kind(tmp_path) == ""


def test_an_optimized_program_says_memory_collectives_kernels_and_padding():
    found = hlo_report(program())
    assert found.state == OPTIMIZED_TPU
    assert found.memory_bytes is not None
    # 1,000 columns are laid out as 1,024; the second argument has 8 rows of two bytes.
    assert found.memory_bytes["argument"] == MIB_PADDED + 8 * 1024 * 2
    assert found.memory_bytes["alias"] == MIB_PADDED
    assert found.memory_bytes["temp"] == 4 * MIB_PADDED
    assert found.padding_bytes == 2 * 1024 * 24 * 4 + 8 * 24 * 2 + (512 - 4)
    assert found.collectives == {"all-gather": {"count": 1, "bytes": 4 * 1024 * 1000 * 4}}
    assert found.kernels == {"other": 1, "tpu_custom_call (Pallas)": 1}
    assert "time" in found.unavailable


def test_a_program_before_optimization_has_no_memory_and_says_why():
    plain = OPTIMIZED.replace(", is_scheduled=true", "")
    found = hlo_report(program(plain))
    assert (found.state, found.memory_bytes, found.padding_bytes) == (UNOPTIMIZED, None, None)
    assert "preflight" in found.unavailable["memory"]
    assert report_dict([found])["programs"][0]["memory_bytes"] is None


def test_a_tpu_program_is_read_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr("tpuprof.preflight.given.read_programs", lambda *_: [program()])
    outcome = preflight_programs(
        tmp_path / "step.txt", [parse_target("v5e-1")], CompileOptions(), False, print
    )
    found = outcome.predictions[0]
    assert "your word" in found.warnings[0]
    assert found.memory is not None
    kinds = module_memory(program().module)
    expected = kinds["argument"] + kinds["output"] - kinds["alias"] + kinds["temp"]
    assert found.memory.total == expected
    assert outcome.iterations()[0].fits


def test_programs_that_cannot_be_judged_are_refused(tmp_path, monkeypatch):
    on_cpu = program(
        OPTIMIZED.replace("T(8,128)(2,1)", "")
        .replace("T(8,128)", "")
        .replace(":}", "}")
        .replace("{:T(128)}", "{}")
    )
    four = program()
    four.partitions = 4
    elsewhere = program()
    elsewhere.chip = "v6e"
    cases = ((on_cpu, "before optimization"), (four, "4 devices"), (elsewhere, "compiled for v6e"))
    for made, word in cases:
        monkeypatch.setattr("tpuprof.preflight.given.read_programs", lambda *_, made=made: [made])
        with pytest.raises(TpuprofError) as caught:
            preflight_programs(tmp_path / "x", [parse_target("v5e-1")], CompileOptions(), False, print)
        assert caught.value.code is Code.USAGE
        assert word in str(caught.value)


def test_the_programs_own_donations_and_names_are_kept():
    module = hlo_pb2.HloModuleProto.FromString(PROTO)
    module.buffer_donor.entries.add(parameter_number=0)
    module.computations[0].instructions[0].metadata.op_name = b"params['w']"
    graph = to_graph(Program("s", Path("s"), "hlo-proto", module.SerializeToString(), program().module))
    assert graph.donors == [0]
    assert graph.parameter_names == ["params['w']"]
    # What shares a certain output's buffer does so in the program itself, and the compiler refuses both.
    module.input_output_alias.entries.add(parameter_number=0)
    shared = to_graph(Program("s", Path("s"), "hlo-proto", module.SerializeToString(), program().module))
    assert shared.donors == []


def test_what_is_no_program_is_a_clear_error(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(TpuprofError) as caught:
        read_programs(tmp_path / "notes.txt", CompileOptions())
    assert caught.value.code is Code.NO_TRACE


def test_the_programs_of_a_capture_are_found_with_their_chip():
    sample = Path(__file__).resolve().parents[2] / "sample_traces" / "predicted_decoder_fsdpv2"
    found = read_programs(next(sample.rglob("*.xplane.pb")), CompileOptions())
    assert [(each.chip, each.optimized, each.tpu) for each in found] == [("v5e", True, True)]
    said = hlo_report(found[0])
    assert "all-gather" in said.collectives
    assert said.estimated_cycles
    # A TPU's products are convolutions; their windows are in the text alone, which jaxlib writes.
    assert said.flops or "flops" in said.unavailable
