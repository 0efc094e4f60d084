"""Traced graphs made ready for the compiler."""

from tests.preflight import programs
from tpuprof.decode import hlo_pb2
from tpuprof.preflight.graphs import load_graph


def write(tmp_path, made: bool = False, shape: tuple[int, ...] = (2048, 1024), sharded: bool = False):
    module = hlo_pb2.HloModuleProto.FromString(programs.graph().proto)
    module.name = b"IrToHlo.7"
    frames = module.stack_frame_index
    for name in (b"/venv/lib/python3.11/site-packages/torch/nn/functional.py", b"/home/me/train.py"):
        frames.file_names.append(name)
    frames.file_locations.add(file_name_id=1, line=2000)
    frames.file_locations.add(file_name_id=2, line=35)
    frames.stack_frames.add(file_location_id=1, parent_frame_id=2)
    frames.stack_frames.add(file_location_id=2)
    instruction = module.computations[0].instructions[0]
    instruction.metadata.stack_frame_id = 1
    if not sharded:
        instruction.ClearField("sharding")
    (tmp_path / "g.pb").write_bytes(module.SerializeToString())
    return {
        "number": 1, "hash": "abc", "kind": "step", "count": 2, "file": "g.pb", "frames": [], "output_names": [],
        "donors": [0], "parameters": [{"name": "w", "shape": list(shape), "dtype": "bfloat16", "made": made}],
    }  # fmt: skip


def test_source_lines_are_the_scripts_own(tmp_path):
    graph = load_graph(tmp_path, write(tmp_path), spmd=True)
    module = hlo_pb2.HloModuleProto.FromString(graph.proto)
    metadata = module.computations[0].instructions[0].metadata
    assert (metadata.source_file, metadata.source_line) == (b"/home/me/train.py", 35)
    assert module.name == b"SyncTensorsGraph.7"
    # Where the environment is is not part of a graph.
    assert list(module.stack_frame_index.file_names) == [b"torch/nn/functional.py", b"/home/me/train.py"]


def test_the_compiler_may_shard_what_no_one_sharded_and_no_one_made(tmp_path):
    assert load_graph(tmp_path, write(tmp_path), spmd=True).propagate == [True]
    assert load_graph(tmp_path, write(tmp_path, made=True), spmd=True).propagate == [False]
    assert load_graph(tmp_path, write(tmp_path, sharded=True), spmd=True).propagate == [False]
    assert load_graph(tmp_path, write(tmp_path), spmd=False).propagate == [False]


def test_parameters_that_do_not_match_donate_nothing(tmp_path):
    graph = load_graph(tmp_path, write(tmp_path, shape=(3,)), spmd=True)
    assert graph.donors == []
    assert "no buffer is donated" in graph.warnings[0]
    assert load_graph(tmp_path, write(tmp_path), spmd=True).donors == [0]


def test_the_fingerprint_changes_with_all_that_changes_the_compile():
    prints = {
        programs.graph().fingerprint,
        programs.graph(donors=[0]).fingerprint,
        programs.graph(propagate=[True]).fingerprint,
        programs.graph(spmd=False).fingerprint,
        programs.graph(proto=b"x").fingerprint,
    }
    assert len(prints) == 5
    assert programs.graph().fingerprint == programs.graph(number=9, parameter_names=["other"]).fingerprint
