"""The predicted trace, read back by everything that reads real ones."""

import json

import pytest

from tests.preflight import programs
from tpuprof.analysis.analyze import analyze_run
from tpuprof.decode import hlo_pb2, xplane_pb2
from tpuprof.decode.hlo import HloModule
from tpuprof.errors import Code, TpuprofError
from tpuprof.preflight.compiler import Compiled
from tpuprof.preflight.iteration import Search
from tpuprof.preflight.predicted_trace import STEPS, predicted_xspace
from tpuprof.preflight.prediction import Prediction, split_ms
from tpuprof.preflight.run_writer import write_run
from tpuprof.preflight.schedule import play
from tpuprof.preflight.script import Trace
from tpuprof.preflight.targets import parse_target

V5E = parse_target("v5e-4")


def prediction(module: HloModule) -> Prediction:
    compiled = Compiled(programs.graph(), V5E, "compiled", 1.5)
    compiled.hlo_proto = hlo_pb2.HloModuleProto(name=module.name.encode()).SerializeToString()
    return Prediction(compiled, None, module, play(module, V5E), flops=10)


def plane_of(found: Prediction) -> xplane_pb2.XPlane:
    space = xplane_pb2.XSpace.FromString(predicted_xspace(found, "host", 1_000))
    return next(each for each in space.planes if each.name == b"/device:TPU:0")


def stats(plane, owner) -> dict[str, object]:
    names = {key: value.name.decode() for key, value in plane.stat_metadata.items()}
    return {names[s.metadata_id]: getattr(s, s.WhichOneof("value")) for s in owner.stats}


def test_the_plane_is_laid_out_as_a_tpus_and_marked_predicted():
    plane = plane_of(prediction(programs.gathered()))
    assert [line.name for line in plane.lines] == [b"Steps", b"XLA Modules", b"XLA Ops", b"Async XLA Ops"]
    held = stats(plane, plane)
    assert held["tpuprof_predicted"] == b"1"
    assert held["device_type_string"] == b"TPU v5 Lite"
    assert held["peak_teraflops_per_second"] == 197.0
    assert b"not measured" in held["tpuprof_note"]


def test_ops_carry_what_the_profiler_gives():
    plane = plane_of(prediction(programs.offloaded(0.1)))
    by_name = {each.display_name: each for each in plane.event_metadata.values() if each.display_name}
    done = by_name[b"copy-done.1"]
    # The operand's shape tells that the copy came from host memory, memory space 5.
    assert b"S(5)" in done.name
    assert done.name.startswith(b"%copy-done.1 = f32[3750000]{0} copy-done((")
    assert stats(plane, done)["hlo_category"] == b"copy-done"
    transfers = list(plane.lines[3].events)
    assert len(transfers) == 2 * STEPS
    assert {stats(plane, each)["hlo_op"] for each in transfers} == {b"copy-done", b"copy-done.1"}
    assert transfers[0].duration_ps == 1_000_000_000


@pytest.mark.parametrize("module", [programs.gathered(0.01), programs.offloaded(0.3), programs.looped(4)])
def test_the_analysis_finds_the_same_split(tmp_path, module):
    found = prediction(module)
    trace = Trace([found.compiled.graph], Search(), True, 4, 0, 0, {"torch_xla": "2.9.0"}, 1.0)
    report = analyze_run(write_run(tmp_path / "run", found, trace, ["train.py"])).to_dict()
    assert not [each for each in report["warnings"] if "left out" in each]
    expected = split_ms(found.schedule)
    assert report["steps"]["count"] == STEPS
    assert report["steps"]["median_ms"] == pytest.approx(found.step_ms, rel=1e-6)
    for part in ("collective_exposed", "offload_exposed"):
        read = report["breakdown"].get(part, {"ms_per_step": 0.0})["ms_per_step"]
        assert read == pytest.approx(expected[part], rel=1e-4, abs=1e-6)
    assert "redicted" in report["verdict"]["sentence"]


def test_the_run_folder_says_predicted_and_is_replaced_only_by_another_prediction(tmp_path):
    found = prediction(programs.looped(2))
    trace = Trace([found.compiled.graph], Search(), True, 4, 0, 0, {}, 1.0)
    run = write_run(tmp_path / "run", found, trace, ["train.py"])
    info = json.loads((run / "tpuprof" / "run.json").read_text())
    assert info["predicted"] is True
    assert info["preflight"]["predicted"]["step_ms"] == 2.0
    assert info["device"]["global_count"] == 4
    write_run(run, found, trace, ["train.py"])
    assert len(list(run.glob("plugins/profile/*/*.xplane.pb"))) == 1
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(TpuprofError) as caught:
        write_run(tmp_path / "mine", found, trace, ["train.py"])
    assert caught.value.code is Code.OUTPUT_EXISTS
    assert (tmp_path / "mine" / "thesis.tex").exists()
