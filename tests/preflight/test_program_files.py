"""Programs given as files: known by content, each module of a dump once, and read or refused."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tests.preflight import programs
from tpuprof.cli.analysis import print_analysis
from tpuprof.cli.preflight import preflight
from tpuprof.decode import folder_walk, hlo_pb2
from tpuprof.decode.hlo_text import parse_hlo_text
from tpuprof.errors import Code, TpuprofError
from tpuprof.preflight import program_files
from tpuprof.preflight.compiler import CompileOptions
from tpuprof.preflight.given import module_memory, preflight_programs
from tpuprof.preflight.hlo_report import OPTIMIZED_TPU, UNOPTIMIZED, hlo_report, report_dict
from tpuprof.preflight.program_files import (
    AFTER,
    Program,
    Source,
    find_programs,
    need_programs,
    read_programs,
    to_graph,
)
from tpuprof.preflight.targets import parse_target

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
PROTO = programs.graph().proto
# Without the time of day: the bytes name a test, and every worker must collect the same names.
PACKED = gzip.compress(PROTO, mtime=0)
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


def program_kind(path: Path) -> str:
    found = find_programs(path)
    return found.kind if found is not None else ""


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.bin", b"ML\xefR\rStableHLO_v1.9.0", "stablehlo"),
        ("a.mlir", b"#loc1 = loc(unknown)\nmodule @jit_step {\n  func.func public @main() {", "stablehlo"),
        ("a.txt", b"HloModule jit_step, entry_computation_layout={}", "hlo-text"),
        ("a.hlo.pb", PROTO, "hlo-proto"),
        ("a.hlo.pb.gz", PACKED, "hlo-proto"),
        ("host.xplane.pb", b"", "capture"),
        ("host.xplane.pb", b"no profile", "capture"),
        ("train", b'\n\n"""A script whose first bytes could be those of a profile."""', ""),
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
    source = need_programs(tmp_path)
    before, after = (
        read_programs(source, CompileOptions(), stage) for stage in ("before_optimizations", AFTER)
    )
    assert {each.module.name for each in before} == {
        "jit_init before_optimizations",
        "jit_step before_optimizations",
    }
    assert {each.module.name for each in after} == {
        "jit_init after_optimizations",
        "jit_step after_optimizations",
    }


@pytest.mark.parametrize(
    "name",
    [
        "jit_step.after_optimizations.hlo.txt.gz",
        "step.hlo.txt",
        "module_0001.jit_step.cpu_after_optimizations.txt",
        "module_0007.jit_step.cl_812.after_optimizations.txt",
    ],
)
def test_a_folder_of_dumps_under_other_names_is_read(tmp_path, name):
    text = OPTIMIZED.encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    source = need_programs(tmp_path)
    assert [each.name for each in source.files] == [name]


def test_the_compilers_own_steps_in_a_dump_are_no_programs(tmp_path):
    """As XLA's CPU compiler writes them with --xla_dump_to; jaxlib reads none of these."""
    (tmp_path / "module_0009.jit_step.before_optimizations.txt").write_text(OPTIMIZED, "utf-8")
    for name in (
        "fusion.1_kernel_module-post-lowering.mlir",
        "cpu_after_optimizations-buffer-assignment.txt",
    ):
        (tmp_path / f"module_0009.jit_step.{name}").write_text("module @jit {\n}\n", "utf-8")
    assert [each.name for each in need_programs(tmp_path).files] == [
        "module_0009.jit_step.before_optimizations.txt"
    ]


def without_jaxlib(*_):
    return subprocess.CompletedProcess([], 1, "", "ModuleNotFoundError: No module named 'jaxlib'\n")


def refuses(*_):
    return subprocess.CompletedProcess([], 1, "", "was parsing 4:1: error: unexpected attribute\n")


@pytest.mark.parametrize("worker", [without_jaxlib, refuses])
def test_text_that_no_jaxlib_reads_is_analysed_and_not_compiled(tmp_path, monkeypatch, worker):
    monkeypatch.setattr(program_files, "_worker", worker)
    path = tmp_path / "step.hlo"
    path.write_text(OPTIMIZED.replace("is_scheduled=true", "is_scheduled=true, num_partitions=4"), "utf-8")
    (found,) = read_programs(need_programs(path), CompileOptions(), to_compile=False)
    assert (found.partitions, hlo_report(found).state) == (4, OPTIMIZED_TPU)
    assert hlo_report(found).memory_bytes == hlo_report(program()).memory_bytes
    with pytest.raises(TpuprofError):
        read_programs(need_programs(path), CompileOptions())


@pytest.mark.parametrize("cut", [200, 400, len(OPTIMIZED) - 3])
def test_cut_text_is_refused_without_jaxlib_too(tmp_path, monkeypatch, cut):
    monkeypatch.setattr(program_files, "_worker", without_jaxlib)
    (tmp_path / "step.hlo").write_text(OPTIMIZED[:cut], "utf-8")
    with pytest.raises(TpuprofError) as caught:
        read_programs(need_programs(tmp_path / "step.hlo"), CompileOptions(), to_compile=False)
    assert caught.value.code is Code.CORRUPT
    assert "ends early" in str(caught.value)


def test_stablehlo_without_jaxlib_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(program_files, "_worker", without_jaxlib)
    (tmp_path / "step.mlir").write_text("module @jit_step {\n}\n", "utf-8")
    with pytest.raises(TpuprofError) as caught:
        read_programs(need_programs(tmp_path / "step.mlir"), CompileOptions(), to_compile=False)
    assert caught.value.code is Code.MISSING_EXTRA


def test_the_parsers_own_word_is_the_reason():
    told = "Traceback\nwas parsing 4:1: error: expects '{'\n1 \"train.py\"\n^\n"
    assert (
        program_files._reason(subprocess.CompletedProcess([], 1, "", told))
        == "was parsing 4:1: error: expects '{'"
    )
    assert (
        program_files._reason(subprocess.CompletedProcess([], 1, "", "a\nImportError: b\n"))
        == "ImportError: b"
    )
    assert program_files._reason(subprocess.CompletedProcess([], -9, "", "")) == "exit -9"


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
        Source(tmp_path / "step.txt", "hlo-text"), [parse_target("v5e-1")], CompileOptions(), False, print
    )
    found = outcome.predictions[0]
    assert "your word" in found.warnings[0]
    assert found.memory is not None
    kinds = module_memory(program().module)
    expected = kinds["argument"] + kinds["output"] - kinds["alias"] + kinds["temp"]
    assert found.memory.total == expected
    assert outcome.iterations()[0].fits


def test_of_programs_as_large_the_step_gives_back_state(tmp_path, monkeypatch):
    """The first step of a script makes the optimizer's state, an evaluation is small: neither is the step."""
    alias = ", input_output_alias={ {0}: (0, {}, may-alias) }"
    first = OPTIMIZED.replace(alias, "").replace("  ROOT", "  %more = f32[]{:T(128)} copy(%loss)\n  ROOT")
    small = "HloModule eval, is_scheduled=true" + alias
    small += "\n\nENTRY %main (w: f32[1024,1000]) -> f32[1024,1000] {\n"
    small += "  ROOT %w = f32[1024,1000]{1,0:T(8,128)} parameter(0)\n}\n"
    made = [program(first), program(small), program()]
    monkeypatch.setattr("tpuprof.preflight.given.read_programs", lambda *_: made)
    source = Source(tmp_path / "dump", "folder")
    outcome = preflight_programs(source, [parse_target("v5e-1")], CompileOptions(), False, print)
    assert outcome.predictions[0].memory.kinds["aliased"] == MIB_PADDED


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
            source = Source(tmp_path / "x", "hlo-text")
            preflight_programs(source, [parse_target("v5e-1")], CompileOptions(), False, print)
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
        need_programs(tmp_path / "notes.txt")
    assert caught.value.code is Code.NO_TRACE


def test_the_programs_of_a_capture_are_found_with_their_chip():
    path = next((SAMPLES / "predicted_decoder_fsdpv2").rglob("*.xplane.pb"))
    found = read_programs(need_programs(path), CompileOptions())
    assert [(each.chip, each.optimized, each.tpu) for each in found] == [("v5e", True, True)]
    said = hlo_report(found[0])
    assert "all-gather" in said.collectives
    assert said.estimated_cycles
    # A TPU's products are convolutions; their windows are in the text alone, which jaxlib writes.
    assert said.flops or "flops" in said.unavailable


@pytest.mark.parametrize("packed", [False, True])
def test_a_renamed_capture_is_a_capture_and_a_graph_is_a_program(tmp_path, packed):
    pack = gzip.compress if packed else bytes
    for kind, paths in (
        ("hlo-proto", SAMPLES.glob("*/tpuprof/graphs/*.hlo.pb")),
        ("capture", SAMPLES.rglob("*.xplane.pb")),
    ):
        found = [path for path in paths if path.stat().st_size]
        assert found
        for path in found:
            renamed = tmp_path / "renamed.pb"
            renamed.write_bytes(pack(path.read_bytes()))
            assert program_kind(renamed) == kind, path


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (lambda: PACKED[:-20], Code.TRUNCATED),
        (lambda: PACKED[:10] + b"\xff" * 40, Code.TRUNCATED),
        (lambda: gzip.compress(bytes(65 << 20)), Code.TOO_LARGE),
    ],
    ids=["cut", "damaged", "large"],
)
def test_a_damaged_archive_is_a_clear_error(tmp_path, data, code):
    path = tmp_path / "step.hlo.pb.gz"
    path.write_bytes(data())
    with pytest.raises(TpuprofError) as caught:
        print_analysis(path, as_json=True, as_markdown=False, use_cache=False)
    assert caught.value.code is code
    # As the command line ends: one line, and status 2.
    done = subprocess.run(
        [sys.executable, "-m", "tpuprof", "analyze", str(path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, f"[{code}]" in done.stderr, "Traceback" in done.stderr) == (2, True, False)


@pytest.mark.parametrize("more", [["--why"], ["--base", "there-is-none"]])
def test_what_is_asked_of_runs_does_not_matter_to_a_program(tmp_path, more):
    (tmp_path / "step.txt").write_text(OPTIMIZED)
    found = [
        subprocess.run(
            [sys.executable, "-m", "tpuprof", "analyze", str(tmp_path / "step.txt"), *options],
            capture_output=True, text=True, check=False,
        )
        for options in ([], more)
    ]  # fmt: skip
    assert found[0].returncode == found[1].returncode == 0, found[1].stderr
    assert found[0].stdout == found[1].stdout != ""


def test_a_program_that_takes_too_long_to_read_is_a_clear_error(tmp_path, monkeypatch):
    monkeypatch.setattr(program_files, "_CONVERT_LIMIT_S", 0.001)
    (tmp_path / "step.txt").write_text(OPTIMIZED)
    with pytest.raises(TpuprofError) as caught:
        read_programs(need_programs(tmp_path / "step.txt"), CompileOptions())
    assert caught.value.code is Code.TOO_LARGE
    # The proto itself is there, so that its text is a thing to do without.
    given = program()
    given.kind = "hlo-proto"
    assert not program_files.complete(given, CompileOptions())


def test_a_program_is_parsed_once(tmp_path, monkeypatch):
    (tmp_path / "step.hlo.pb").write_bytes(PROTO)
    parsed = []
    plain = program_files.parse_module_proto
    monkeypatch.setattr(
        program_files, "parse_module_proto", lambda data: parsed.append(len(data)) or plain(data)
    )
    for path in (tmp_path, tmp_path / "step.hlo.pb"):
        assert len(read_programs(need_programs(path), CompileOptions())) == 1
    assert parsed == [len(PROTO)] * 2


def test_a_folder_is_walked_once_and_not_without_end(tmp_path, monkeypatch):
    (tmp_path / "b").mkdir()
    for name in ("a.hlo.pb", "b/c.hlo.pb"):
        (tmp_path / name).write_bytes(PROTO)
    walks = []
    plain = folder_walk.os.walk
    monkeypatch.setattr(
        folder_walk.os, "walk", lambda *folders, **how: walks.append(folders) or plain(*folders, **how)
    )
    assert len(read_programs(need_programs(tmp_path), CompileOptions())) == 2
    assert len(walks) == 1
    monkeypatch.setattr(folder_walk, "MAX_LISTED", 1)
    with pytest.raises(TpuprofError) as raised:
        need_programs(tmp_path)
    assert raised.value.code == "input-too-many-files"


def run_preflight(*arguments: str) -> None:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(preflight)
    result = CliRunner().invoke(app, [*arguments, "--tpu", "v5e-4"])
    if result.exception:
        raise result.exception


@pytest.mark.parametrize(
    "option",
    [("--sweep", "batch=8,16"), ("--compare", "b.py"), ("--compare-args", ""), ("--compare-env", "A=1")],
)
def test_options_of_scripts_are_refused_for_a_program(tmp_path, option):
    (tmp_path / "step.hlo.pb").write_bytes(PROTO)
    with pytest.raises(TpuprofError) as caught:
        run_preflight(str(tmp_path / "step.hlo.pb"), *option)
    assert caught.value.code is Code.USAGE


def test_flags_of_the_compiler_reach_it_for_a_program_too(tmp_path, monkeypatch):
    (tmp_path / "step.hlo.pb").write_bytes(PROTO)
    seen = []

    def compile_all(_jobs, options, _progress):
        seen.append(options.flags())
        raise StopIteration

    monkeypatch.setattr("tpuprof.preflight.given.compile_all", compile_all)
    monkeypatch.setattr("tpuprof.preflight.run.known_targets", lambda targets, _: [True] * len(targets))
    flags = "--xla_tpu_enable_async_collective_fusion=true"
    with pytest.raises(StopIteration):
        run_preflight(str(tmp_path / "step.hlo.pb"), "--env", f"LIBTPU_INIT_ARGS={flags}")
    assert seen[0]["LIBTPU_INIT_ARGS"] == flags
