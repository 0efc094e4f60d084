"""Each TorchTPU sample reads as its EXPECTED.toml says, which was written from how its script was built."""

import tomllib
from pathlib import Path

import pytest

from tpuprof.analysis.analyze import analyze_run

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces" / "torch_tpu"
NAMES = ("new_shapes", "reads", "slow_input")


@pytest.fixture(scope="module", params=NAMES)
def sample(request):
    folder = SAMPLES / request.param
    return tomllib.loads((folder / "EXPECTED.toml").read_text("utf-8")), analyze_run(folder)


def test_each_folder_is_tried():
    assert sorted(path.parent.name for path in SAMPLES.glob("*/EXPECTED.toml")) == sorted(NAMES)


def test_what_ran(sample):
    _, report = sample
    found = report.environment
    assert (found["framework"], found["device_count"], found["host_count"]) == ("torch_tpu", 0, 1)
    assert found["torch_tpu"] == "0.2.0"


def test_steps(sample):
    expected, report = sample
    assert (report.steps.method, report.steps.confidence) == ("step markers", "high")
    first = expected["first_steps"]
    assert [each.index for each in report.steps.per_step] == list(range(first, first + expected["steps"]))


def test_verdict_and_its_part(sample):
    expected, report = sample
    assert report.verdict.bound in expected["bound"]
    # Without a device plane nothing is said of the device.
    assert "no device plane" in report.verdict.sentence
    assert "the device idles" not in report.verdict.sentence
    for name, least in expected.get("at_least_ms_per_step", {}).items():
        assert report.breakdown[name].ms_per_step >= least
    spent = sum(part.ms_per_step for part in report.breakdown.values())
    assert spent == pytest.approx(sum(each.wall_ms for each in report.steps.per_step) / expected["steps"])


def test_compiles_and_their_causes(sample):
    expected, report = sample
    wanted = expected["compiles"]
    assert bool(report.compiles) == bool(wanted)
    for shape in wanted or ():
        assert any(shape in each.cause.detail for each in report.compiles)


def test_reads_and_annotations(sample):
    expected, report = sample
    wanted = expected.get("reads")
    found = [(row.call, Path(row.source).name, row.occurrences) for row in report.host_reads]
    assert found == ([(wanted["call"], wanted["line"], wanted["occurrences"])] if wanted else [])
    assert sorted(row.name for row in report.annotations) == expected["annotations"]


def test_the_first_finding(sample):
    expected, report = sample
    failed = [each.rule for each in report.findings if each.status == "failed"]
    assert failed[0] in expected["rules"]
    assert set(expected["rules"]) <= set(failed)
