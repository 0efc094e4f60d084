"""`tpuprof preflight` as a user runs it: torch_xla traces, the real TPU compiler compiles. Small programs only."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

pytest.importorskip("libtpu")
pytestmark = pytest.mark.torch_xla

from tpuprof.analysis.analyze import analyze_run  # noqa: E402
from tpuprof.cli.preflight import preflight  # noqa: E402
from tpuprof.decode.hlo_proto import read_hlo_proto  # noqa: E402
from tpuprof.errors import TpuprofError  # noqa: E402

DECODER = Path(__file__).resolve().parents[2] / "scenarios" / "preflight" / "decoder.py"
DIM, LAYERS, VOCAB, BATCH, LENGTH = 256, 2, 1024, 8, 512
SMALL = [
    "--layers",
    str(LAYERS),
    "--dim",
    str(DIM),
    "--vocab",
    str(VOCAB),
    "--batch",
    str(BATCH),
    "--length",
    str(LENGTH),
]
LINEAR = """
import os, torch, torch_xla
size = int(os.environ.get("SIZE", "256"))
device = torch_xla.device()
weight = torch.nn.Parameter(torch.zeros(size, size, dtype=torch.bfloat16).to(device))
for step in range(9):
    x = torch.ones(8, size, dtype=torch.bfloat16).to(device)
    weight.grad = None
    (x @ weight).sum().backward()
    with torch.no_grad():
        weight -= weight.grad
    torch_xla.sync()
"""


def run(arguments: list[str], tmp_path: Path) -> dict:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(preflight)
    result = CliRunner().invoke(app, [*arguments[:1], "--json", "-o", str(tmp_path / "runs"), *arguments[1:]])
    if result.exception:
        raise result.exception
    return json.loads(result.stdout)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def linear(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(LINEAR)
    return str(path)


def test_fsdp_shards_weights_and_gathers_them(tmp_path):
    report = run([str(DECODER), "--tpu", "v5e-4", "--", "--variant", "fsdp", *SMALL], tmp_path)
    assert report["schema"] == "tpuprof.preflight/1"
    variant = report["variants"][0]
    target = variant["targets"][0]
    assert variant["traces"][0]["spmd"] is True
    assert (target["status"], target["devices"], target["memory"]["fits"]) == ("compiled", 4, True)

    block = (3 + 1 + 4 + 4) * DIM * DIM * 2
    norms = 2 * DIM * 2 * LAYERS
    ends = 2 * VOCAB * DIM * 2
    weights = LAYERS * block + norms + ends
    # Weights and two moments of each over four chips; tokens and scalars are all that is added.
    arguments = target["memory"]["kinds_bytes"]["arguments"]
    assert weights * 3 / 4 <= arguments <= weights * 3 / 4 * 1.2

    gathered = {
        each["weight"]: each["bytes"] / each["count"] for each in target["collectives"] if each["weight"]
    }
    blocks = {
        name: size for name, size in gathered.items() if name.startswith("layers.") and "norm" not in name
    }
    assert sum(blocks.values()) == LAYERS * block
    assert {each["layer"] for each in target["collectives"]} >= {"layers.0", "layers.1"}

    predicted = target["predicted"]
    assert sum(predicted["split_ms"].values()) == pytest.approx(predicted["step_ms"])
    read = analyze_run(Path(report["runs"][0])).to_dict()
    assert read["steps"]["median_ms"] == pytest.approx(predicted["step_ms"], rel=1e-6)


@pytest.mark.slow("another real trace and TPU compile")
def test_offload_moves_the_stated_bytes_out_of_hbm(tmp_path):
    report = run([str(DECODER), "--tpu", "v5e-1", "--", "--variant", "offload", *SMALL], tmp_path)
    target = report["variants"][0]["targets"][0]
    kept = LAYERS * BATCH * LENGTH * DIM * 2
    assert target["offload_bytes"] == {"to_host": kept, "from_host": kept}
    assert target["memory"]["kinds_bytes"]["host"] == kept


@pytest.mark.slow("three real traces and TPU compiles")
def test_a_sweep_finds_the_largest_that_fits(tmp_path):
    report = run([linear(tmp_path), "--tpu", "v5e-1", "--sweep", "SIZE=512,100000,256,120000"], tmp_path)
    assert report["largest_fitting"] == {"v5e-1": "SIZE=512"}
    # Nothing larger is compiled once one value does not fit.
    assert [each["label"] for each in report["variants"]] == ["SIZE=256", "SIZE=512", "SIZE=100000"]
    refused = report["variants"][2]["targets"][0]["memory"]
    # The weight and its gradient.
    assert refused["shortfall_bytes"] == pytest.approx(40e9 - 15.75 * 2**30, rel=0.1)
    assert "RESOURCE_EXHAUSTED" in refused["compiler_text"]


@pytest.mark.slow("a whole search: several real traces and TPU compiles")
def test_a_search_keeps_to_its_budget_and_compiles_the_winner_again(tmp_path):
    arguments = [
        "--tpu",
        "v5e-1",
        "--env",
        "SIZE=1024",
        "--search",
        "SIZE=1024,256",
        "--search-compiles",
        "3",
    ]
    report = run([linear(tmp_path), *arguments], tmp_path)
    found = report["searches"][0]
    assert [(each["label"], each["status"]) for each in found["tried"]] == [
        ("the script as it is", "compiled"),
        ("SIZE=1024", "same-program"),
        ("SIZE=256", "compiled"),
    ]
    # Flags that libtpu knows were found, and there was no compile left for them.
    assert (found["compiles"], found["points_not_reached"] > 0) == (3, True)
    assert (found["winner"], found["winner_agrees"]) == ("SIZE=256", True)
    again = found["winner_again"]
    assert again["changes"] == ["environment variable SIZE=256"]
    assert 0 < again["step_ms"] < found["tried"][0]["step_ms"]
    assert [Path(each).parent.name for each in report["runs"]] == ["the_script_as_it_is", "SIZE=256"]
    assert json.loads((tmp_path / "runs" / "search.json").read_text())["searches"] == report["searches"]


@pytest.mark.parametrize(
    "more", [["--search", "SIZE=1,2"], ["--search", "auto", "--tpu", "v5e-1", "--sweep", "SIZE=1"]]
)
def test_a_search_needs_a_slice_and_no_sweep(tmp_path, more):
    with pytest.raises(TpuprofError, match="usage"):
        run([linear(tmp_path), "--search", "auto", *more], tmp_path)


@pytest.mark.slow("four real traces, two TPU compiles")
def test_two_settings_side_by_side_and_the_second_time_from_cache(tmp_path):
    arguments = [linear(tmp_path), "--tpu", "v5e-1", "--compare-env", "SIZE=512"]
    report = run(arguments, tmp_path)
    first, second = (each["targets"][0] for each in report["variants"])
    assert report["variants"][1]["label"] == "SIZE=512"
    sizes = [each["memory"]["kinds_bytes"]["arguments"] for each in (first, second)]
    assert sizes[1] > 3 * sizes[0]
    assert [Path(each).parent.name for each in report["runs"]] == ["train.py", "SIZE=512"]
    again = run(arguments, tmp_path)
    assert all(each["targets"][0]["cached"] for each in again["variants"])


@pytest.mark.slow("another real trace and TPU compile")
def test_the_traced_graph_is_kept_in_the_run_folder(tmp_path):
    report = run([linear(tmp_path), "--tpu", "v5e-1"], tmp_path)
    graphs = list((Path(report["runs"][0]) / "tpuprof" / "graphs").glob("*.hlo.pb"))
    assert [each.name.split(".")[0] for each in graphs] == [
        report["variants"][0]["targets"][0]["graph"]["hash"]
    ]
    assert any(each.opcode == "dot" for each in read_hlo_proto(graphs[0].read_bytes()).instructions())
