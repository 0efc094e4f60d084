"""A preflight's comparison in the run folder becomes evidence; without one, findings name the command."""

import json

import pytest

from tests.model.test_loops import layers
from tests.rules.test_from_traces import BEGINS, busy, finding, idle, noted  # noqa: F401  # a fixture
from tpuprof.model.preflight_notes import read_preflight
from tpuprof.run_folder import PREFLIGHT_SCHEMA

GIB = 1 << 30


def target(seconds, gib, step, fits=True):
    return {
        "target": "v5e-4", "compile_seconds": seconds, "predicted": {"step_ms": step},
        "memory": {"total_bytes": int(gib * GIB), "capacity_bytes": 16 * GIB, "fits": fits},
    }  # fmt: skip


def comparison():
    return json.dumps(
        {
            "schema": PREFLIGHT_SCHEMA,
            "variants": [
                {"label": "train.py", "targets": [target(113.0, 6.3, 102.3)]},
                {"label": "folded.py", "targets": [target(62.0, 18.5, 208.1, fits=False)]},
            ],
            "runs": [],
        }
    )


def texts(found):
    return [each.text for each in found.evidence]


def test_unrolled_layers_states_what_folding_did(finding):  # noqa: F811
    trace = busy()
    trace.host().line("python").repeat("SyncLiveTensorsGraph", BEGINS, 10)
    layers(trace, BEGINS, 8, scope="Decoder.1/layers.{0}.2/")
    found = finding("unrolled-layers", trace, notes={"preflight.json": comparison()})
    assert texts(found)[2:] == [
        "predicted by the TPU compiler: train.py on v5e-4 compiles in 113 s, needs 6.30 GiB of HBM, 102 ms per step",
        "predicted by the TPU compiler: folded.py on v5e-4 compiles in 62 s, needs 18.5 GiB of HBM, does not fit, "
        "208 ms per step",
    ]


def test_unrolled_layers_names_the_command_where_nothing_was_compared(finding):  # noqa: F811
    trace = busy()
    trace.host().line("python").repeat("SyncLiveTensorsGraph", BEGINS, 10)
    layers(trace, BEGINS, 8, scope="Decoder.1/layers.{0}.2/")
    info = {"schema": "tpuprof.run/1", "command_line": ["python", "tune.py"]}
    found = finding("unrolled-layers", trace, notes={"run.json": json.dumps(info)})
    assert "`tpuprof preflight tune.py --compare folded.py`" in texts(found)[-1]


def test_start_up_says_what_the_tpu_compiler_takes(finding):  # noqa: F811
    found = finding("persistent-cache-off", idle(), notes={**noted(), "preflight.json": comparison()})
    assert found.status == "failed"
    assert [(each.text, each.value) for each in found.evidence][2:4] == [
        ("the TPU compiler took for train.py on v5e-4, preflight", 113.0),
        ("the TPU compiler took for folded.py on v5e-4, preflight", 62.0),
    ]


@pytest.mark.parametrize(("gib", "status"), [(14.3, "passed"), (14.5, "failed")])
def test_a_predicted_run_fills_hbm(finding, gib, status):  # noqa: F811
    own = {**target(20.0, gib, 10.0), "target": "v5e-4"}
    info = {"schema": "tpuprof.run/1", "predicted": True, "preflight": own, "command": ["train.py"]}
    found = finding("hbm-pressure", busy(), notes={"run.json": json.dumps(info)})
    assert found.status == status
    if status == "failed":
        assert found.title == "91 % of HBM is full"
        assert "this script on v5e-4 compiles in 20 s, needs 14.5 GiB" in texts(found)[1]
        assert "`tpuprof preflight train.py --compare recomputed.py`" in texts(found)[2]


@pytest.mark.parametrize(("seconds", "status"), [(19.9, "passed"), (20.0, "failed")])
def test_a_predicted_run_that_compiles_slowly(finding, seconds, status):  # noqa: F811
    info = {"schema": "tpuprof.run/1", "predicted": True, "preflight": target(seconds, 1.0, 10.0)}
    found = finding("slow-compile", busy(), notes={"run.json": json.dumps(info)})
    assert (found.status, found.savings) == (status, None)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        json.dumps({"schema": PREFLIGHT_SCHEMA, "variants": 1}),
        json.dumps({"schema": "tpuprof.preflight/9"}),
    ],
)
def test_a_file_that_is_none_of_ours_is_said_and_left_out(tmp_path, text):
    (tmp_path / "tpuprof").mkdir()
    (tmp_path / "tpuprof" / "preflight.json").write_text(text)
    variants, notes = read_preflight(tmp_path, {"preflight": {"memory": 3, "compile_seconds": "x"}})
    assert [each.compile_seconds for each in variants] == [None]
    assert "preflight.json" in notes[0]
