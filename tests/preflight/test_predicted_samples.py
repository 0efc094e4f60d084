"""The predicted samples hold what their EXPECTED.toml demands, which was worked out by hand."""

import json
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from tpuprof.analysis.analyze import analyze_run
from tpuprof.decode import xplane_pb2

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
NAMES = sorted(path.parent.name for path in SAMPLES.glob("predicted_*/EXPECTED.toml"))
XPROF = """
import json, sys
from xprof.convert import raw_to_tool_data
def tool(name):
    data, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], name, {})
    return json.loads(data)
step = next(part["p"]["steptime_ms_average"] for part in tool("overview_page") if "steptime_ms_average" in part.get("p", {}))
print(json.dumps([float(step), tool("op_profile")["byProgram"]["metrics"]["rawFlops"]]))
"""


class Sample:
    """A sample's files, its device plane, and what must hold."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.expected = tomllib.loads((folder / "EXPECTED.toml").read_text("utf-8"))
        self.info = json.loads((folder / "tpuprof" / "run.json").read_text("utf-8"))
        self.trace = next(folder.glob("plugins/profile/*/predicted.xplane.pb"))
        space = xplane_pb2.XSpace.FromString(self.trace.read_bytes())
        self.plane = next(each for each in space.planes if each.name == b"/device:TPU:0")
        self.stat_names = {key: value.name.decode() for key, value in self.plane.stat_metadata.items()}

    def stats(self, owner) -> dict[str, object]:
        return {self.stat_names[s.metadata_id]: getattr(s, s.WhichOneof("value")) for s in owner.stats}

    def events(self, line: str):
        found = next(each for each in self.plane.lines if each.name == line.encode())
        for event in found.events:
            metadata = self.plane.event_metadata[event.metadata_id]
            yield metadata, self.stats(metadata), event


@pytest.fixture(scope="module", params=NAMES)
def sample(request):
    return Sample(SAMPLES / request.param)


def test_all_four_are_there():
    assert {name.removeprefix("predicted_decoder_") for name in NAMES} == {
        "loop",
        "scan",
        "fsdpv2",
        "offload",
    }


def test_they_say_that_they_are_predicted(sample):
    assert sample.info["predicted"] is True
    assert sample.stats(sample.plane)["tpuprof_predicted"] == b"1"
    assert "redicted" in (sample.folder / "README.md").read_text("utf-8")


def test_steps_and_device(sample):
    report = analyze_run(sample.folder)
    assert report.environment["device_type"] == sample.expected["environment"]["device_type"]
    assert report.steps.count == sample.expected["steps"]["count"]
    assert report.steps.median_ms == pytest.approx(sample.info["preflight"]["predicted"]["step_ms"])


def test_flops(sample):
    total = sum(stats["flops"] for _, stats, _ in sample.events("XLA Ops"))
    assert total == sample.expected["flops"]["per_step"] * sample.expected["steps"]["count"]


def test_loops(sample):
    wanted = sample.expected.get("loops")
    loops = Counter(
        meta.display_name for meta, stats, _ in sample.events("XLA Ops") if stats["hlo_category"] == b"while"
    )
    assert len(loops) == (wanted["count"] if wanted else 0)
    if wanted:
        times = Counter(meta.display_name for meta, _, _ in sample.events("XLA Ops"))
        assert max(times.values()) == wanted["rounds"] * sample.expected["steps"]["count"]


def test_offloaded_bytes(sample):
    wanted = sample.expected.get("offload", {"to_host_bytes": 0, "from_host_bytes": 0})
    moved: Counter[str] = Counter()
    for meta, stats, _ in sample.events("Async XLA Ops"):
        destination, _, source = meta.name.decode().partition(" copy-start(")
        if source:
            first = destination.split("}")[0]
            moved["to_host_bytes" if "S(5)" in first else "from_host_bytes"] += stats["bytes_accessed"]
    steps = sample.expected["steps"]["count"]
    assert moved == {key: value * steps for key, value in wanted.items() if value}


def test_collectives(sample):
    wanted = sample.expected.get("collectives", {"kinds": []})
    rows = sample.info["preflight"]["collectives"]
    assert {row["kind"] for row in rows} == set(wanted["kinds"])
    layers: Counter[str] = Counter()
    seen = set()
    for row in rows:
        gathered = row["kind"] == "all-gather" and row["layer"] and "norm" not in row["weight"]
        if gathered and row["weight"] not in seen:
            seen.add(row["weight"])
            layers[row["layer"]] += row["bytes"] // row["count"]
    assert layers == wanted.get("gathered_layer_bytes", {})


def test_memory(sample):
    if "memory" not in sample.expected:
        pytest.skip("nothing is said of memory")
    arguments = sample.info["preflight"]["memory"]["kinds_bytes"]["arguments"]
    least = sample.expected["memory"]["weights_and_moments_per_chip"]
    # On top come tokens, scalars, and the padding of small vectors to a tile.
    assert least <= arguments <= least * 1.1


def test_xprof_reads_the_same_step_and_flops(sample, tmp_path):
    pytest.importorskip("xprof")
    # A copy: XProf leaves files of its own beside what it reads.
    copy = tmp_path / sample.trace.name
    copy.write_bytes(sample.trace.read_bytes())
    done = subprocess.run(
        [sys.executable, "-c", XPROF, str(copy)], capture_output=True, text=True, timeout=120, check=True
    )
    step_ms, flops = json.loads(done.stdout.splitlines()[-1])
    assert step_ms == pytest.approx(sample.info["preflight"]["predicted"]["step_ms"], abs=0.01)
    assert flops == sample.expected["flops"]["per_step"] * sample.expected["steps"]["count"]


def test_gathers_and_scatters_belong_to_the_right_layers():
    """FSDPv2 on v5e:2x2: every weight is gathered for its own layer, and gradients go back to their layer's."""
    from tpuprof.analysis.analyze import analyze_run

    rows = analyze_run(SAMPLES / "predicted_decoder_fsdpv2").collectives
    gathers = [row for row in rows if row.kind == "all-gather"]
    assert {row.role for row in gathers} == {"parameter_gather"}
    # The script's model, from its own code: each block has four matrices, and the model an embedding and a head.
    weights = {f"layers.{layer}.{name}.weight" for layer in range(2) for name in ("qkv", "out", "up", "down")}
    assert {row.parameter for row in gathers} == weights | {"embed.weight", "head.weight"}
    for row in gathers:
        assert row.layer == (".".join(row.parameter.split(".")[:2]) if row.parameter in weights else "")
    scatters = [row for row in rows if row.kind == "reduce-scatter"]
    assert {row.role for row in scatters} == {"gradient_scatter"}
    assert {row.direction for row in scatters} == {"backward"}
    assert {row.layer for row in scatters} == {"layers.0", "layers.1", ""}
