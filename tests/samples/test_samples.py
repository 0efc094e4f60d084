"""Each sample trace reads as its EXPECTED.toml says, which was written from how its script was built."""

import tomllib
from pathlib import Path

import pytest

from tpuprof.analysis.analyze import analyze_run
from tpuprof.decode.find import find
from tpuprof.model.run import build_run

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
NAMES = sorted(
    path.parent.name for path in SAMPLES.glob("[!p]*/EXPECTED.toml")
)  # predicted ones have tests of their own


@pytest.fixture(scope="module", params=NAMES)
def sample(request):
    folder = SAMPLES / request.param
    expected = tomllib.loads((folder / "EXPECTED.toml").read_text("utf-8"))
    return folder, expected, analyze_run(folder)


def test_there_are_samples():
    assert {"decoder_loop", "decoder_scan", "recompile_shapes", "input_starved"} <= set(NAMES)


def test_environment(sample):
    _, expected, report = sample
    for key, value in expected.get("environment", {}).items():
        assert report.environment[key] == value


def test_steps(sample):
    _, expected, report = sample
    assert report.steps.count == expected["steps"]["count"]
    assert report.steps.method == "step markers"
    assert report.steps.confidence == "high"
    first = expected["steps"]["first"]
    assert [step.index for step in report.steps.per_step] == list(range(first, first + report.steps.count))


def test_verdict(sample):
    _, expected, report = sample
    assert report.verdict.bound in expected["verdict"]["bound"]
    assert report.verdict.sentence


def test_least_and_most_time_of_parts(sample):
    _, expected, report = sample
    for name, least in expected.get("at_least_ms_per_step", {}).items():
        assert report.breakdown[name].ms_per_step >= least, name
    for name, most in expected.get("at_most_ms_per_step", {}).items():
        assert report.breakdown[name].ms_per_step <= most, name


def test_compiles(sample):
    _, expected, report = sample
    wanted = expected["compiles"]
    assert [row.step for row in report.compiles] == wanted["steps"]
    for row in report.compiles:
        assert len(row.graph_hash) == 32
        assert int(row.graph_hash, 16)
        step = next(step for step in report.steps.per_step if step.index == row.step)
        assert step.bound == "compile"
        assert row.duration_ms <= step.wall_ms
        assert row.cause.kind == wanted["cause"]
        assert wanted["detail"] in row.cause.detail
        assert row.cause.source_file.endswith(wanted["source"])
        assert row.cause.source_line
        assert any(wanted["frame"] in frame for frame in row.frames)


def test_host_reads(sample):
    _, expected, report = sample
    wanted = expected.get("host_reads")
    if wanted is None:
        assert not report.host_reads
        return
    (row,) = report.host_reads
    assert (row.call, row.occurrences) == (wanted["call"], wanted["occurrences"])
    assert f"{wanted['source']}:" in row.source
    assert wanted["source"] in report.verdict.sentence


def test_annotations_reach_host_and_device(sample):
    _, expected, report = sample
    found = {(row.name, row.kind): row for row in report.annotations}
    for name in expected["annotations"]["host"]:
        row = found[name, "annotation"]
        assert row.occurrences == report.steps.count
        assert row.host_ms > 0
    for name in expected["annotations"]["modules"]:
        assert found[name, "module"].host_ms > 0
    for name in expected["annotations"]["device"]:
        assert any(row.device_ms for row in report.annotations if row.name == name), name


def test_source_lines(sample):
    _, expected, report = sample
    for ending in expected.get("sources", {}).get("device", []):
        assert any(ending in row.source and row.device_ms > 0 for row in report.sources), ending


def test_collectives(sample):
    _, expected, report = sample
    kinds = {op.name.split(".")[0] for op in report.ops if op.kind == "collective"}
    assert kinds >= set(expected.get("collectives", {}).get("kinds", []))
    if not expected.get("collectives"):
        assert not kinds


def test_parts_sum_to_the_wall_time_to_the_picosecond(sample):
    folder, _, report = sample
    for host in build_run(find(folder)).hosts:
        total = sum(host.breakdown.parts.values())
        assert (total == host.steps.wall_ps).all()
        assert all((part >= 0).all() for part in host.breakdown.parts.values())
    for step in report.steps.per_step:
        assert sum(step.breakdown_ms.values()) == pytest.approx(step.wall_ms, abs=1e-6)


def test_size(sample):
    folder, _, _ = sample
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 1_500_000


def test_every_page_means_the_same_by_per_step_and_device(sample):
    _, _, report = sample
    parts = {name: part.ms_per_step for name, part in report.breakdown.items()}
    collectives = parts["collective_exposed"]
    for rows in (report.collectives, report.collective_layers):
        assert sum(row.exposed_ms_per_step for row in rows) == pytest.approx(collectives, rel=0.01, abs=1e-3)
    on_ops = sum(
        parts[name] for name in ("compute", "collective_exposed", "offload_exposed", "infeed_outfeed")
    )
    told = sum(row.self_ms_per_step for row in report.compute.categories)
    assert told == pytest.approx(on_ops, rel=0.01)
    assert sum(op.self_ms_per_step for op in report.ops if op.kind != "container") == pytest.approx(told)
    wall = sum(step.wall_ms for step in report.steps.per_step) / report.steps.count
    assert told <= wall
    for row in report.annotations:
        assert (row.device_ms_per_step or 0.0) <= wall * 1.001


def test_dots_without_hlo_lines_are_matrix_multiplications(sample):
    _, _, report = sample
    dots = sum(op.self_ms_per_step for op in report.ops if op.name.partition(".")[0] == "dot")
    assert report.compute.matmul_ms_per_step == pytest.approx(dots)
