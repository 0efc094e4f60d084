"""What a search finds by itself: a script's options, its mesh, its layers, float32 products; and what it must not take."""

import json
import subprocess
import sys

import pytest

from tests.preflight import programs
from tests.preflight.test_search import Compiler, result
from tpuprof.preflight.iteration import Event, Search
from tpuprof.preflight.options import NOTES, read_notes, wanted_mesh
from tpuprof.preflight.script import ScriptRun, Trace
from tpuprof.preflight.search.choices import (
    MESH,
    PRECISIONS,
    SETTING,
    SWITCH,
    TRY,
    Choice,
    changed,
    changes_to_make,
    parse_search,
)
from tpuprof.preflight.search.engine import Found
from tpuprof.preflight.search.engine import Search as Engine
from tpuprof.preflight.search.front import COMPILED, OTHER_WORK, TOO_LARGE, Result
from tpuprof.preflight.search.judge import numerics
from tpuprof.preflight.search.own import Offered, batch_option, layers_of, offered, shapes_of
from tpuprof.preflight.targets import parse_target

F32, BF16 = {"f32 x f32": 3}, {"bf16 x bf16": 3}
GIB = 1 << 30


def option(name, value, choices=(), switch=False):
    return {"kind": "option", "name": name, "value": value, "switch": switch, "choices": list(choices)}


def trace(*notes, names=(), torch_xla=True):
    graph = programs.graph(parameter_names=list(names), updates=1)
    versions = {"torch_xla": "2.9"} if torch_xla else {"jax": "0.7"}
    search = Search([Event("abc", True)] * 2, frozenset())
    return Trace([graph], search, False, 1, 0, 0, versions, 1.0, offers=list(notes))


def faster(*notes, products=BF16, tpu="v5e-1", taken=(), **more):
    found = offered(trace(*notes, **more), products, parse_target(tpu), frozenset(taken))
    return [(each.name, each.value) for each in found.faster]


def test_a_batch_is_doubled_twice():
    assert faster(option("batch", 8)) == [("batch", "16"), ("batch", "32")]
    assert faster(option("per_device_train_batch_size", 8), option("per_device_eval_batch_size", 64)) == [
        ("per_device_train_batch_size", "16"), ("per_device_train_batch_size", "32"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "notes",
    [
        [option("batch", 8), option("batch-size", 4)],
        [option("eval-batch-size", 8)],
        [option("batch", None)],
        [option("batches", "all")],
        [option("checkpoint", False, switch=True)],
        [option("resume-checkpointing-from", None, ["a"])],
        [option("learning-rate", 1e-3), option("layers", 4), option("steps", 50257)],
        [option("vocab", 50304), option("vocab-file", 3)],
    ],
    ids=["two", "eval", "none", "text", "path", "resume", "others", "padded"],
)
def test_what_is_not_known_to_be_a_choice_of_speed_is_left_alone(notes):
    assert faster(*notes) == []


def test_the_users_own_settings_are_not_tried_twice():
    assert faster(option("batch", 8), option("remat", "none", ["none", "full"]), taken=["batch"]) == [
        ("remat", "full")
    ]
    assert batch_option(trace(option("batch", 8)))["value"] == 8


def test_choices_and_switches_that_speak_of_speed():
    assert faster(option("remat", "none", ["none", "full", "dots"])) == [("remat", "full"), ("remat", "dots")]
    assert faster(option("variant", "loop", ["loop", "scan"])) == [("variant", "scan")]
    assert faster(option("gradient_checkpointing", False, switch=True)) == [("gradient_checkpointing", "")]
    assert faster(option("gradient_checkpointing", True, switch=True)) == []
    assert faster(option("micro-batch", 4)) == [("micro-batch", "2"), ("micro-batch", "8")]


def test_a_vocabulary_is_padded_to_whole_tiles():
    assert faster(option("vocab_size", 50257)) == [("vocab_size", "50304")]


def test_autocast_is_for_float32_in_torch_xla():
    assert faster(products=F32) == [("autocast", "bfloat16")]
    assert faster(products=BF16) == []
    assert faster(products=F32, torch_xla=False) == []


def test_meshes_of_as_many_axes_and_devices():
    mesh = {"kind": "mesh", "shape": [4, 1], "axes": ["fsdp", "model"]}
    assert faster(mesh, tpu="v5e-4") == [("mesh fsdp,model", "2,2"), ("mesh fsdp,model", "1,4")]
    assert faster(mesh) == []
    # Where options name the axes they are what the user changes.
    axes = [option("fsdp", 4), option("tp", 1)]
    assert faster(mesh, *axes, tpu="v5e-4") == [("fsdp+tp", "2+2"), ("fsdp+tp", "1+4")]
    assert shapes_of((2, 2, 2))[0] in {(1, 2, 4), (1, 4, 2), (2, 1, 4), (2, 4, 1), (4, 1, 2), (4, 2, 1)}
    assert len(shapes_of((8, 1))) == 3


def test_a_mesh_is_replaced_only_where_it_can_be(monkeypatch):
    monkeypatch.setenv("TPUPROF_PREFLIGHT_MESH", "2,2")
    assert wanted_mesh((4, 1), ("a", "b")) == (2, 2)
    assert wanted_mesh((4,), ("a",)) == (4,)
    assert wanted_mesh((8, 1), ("a", "b")) == (8, 1)


def test_layers_are_known_by_the_names_of_their_weights():
    names = [f"blocks.{layer}.{part}" for layer in range(3) for part in ("mlp.weight", "norm.weight")]
    assert layers_of(trace(names=names)) == ["blocks"]
    # Embeddings in a list are no layers, and neither is a stack of unlike modules.
    assert layers_of(trace(names=["tables.0.weight", "tables.1.weight"])) == []
    assert layers_of(trace(names=["net.0.conv.weight", "net.1.norm.bias"])) == []
    found = offered(trace(names=names), BF16, parse_target("v5e-1"), frozenset())
    assert [each.name for each in found.smaller] == ["remat", "remat-offload", "scan", "scan-remat"]


def test_what_is_found_goes_where_the_user_would_put_it():
    point = (
        Choice("fsdp+tp", "2+2", SETTING, True), Choice("remat", "", SWITCH, True), Choice("autocast", "bfloat16", TRY, True),
        Choice("scan", "blocks", TRY, True), Choice("mesh a,b", "2,2", MESH, True),
    )  # fmt: skip
    run = ScriptRun("train.py", ["--fsdp", "4"])
    made = changed(run, point)
    assert made.arguments == ["--fsdp", "2", "--tp", "2", "--remat"]
    assert made.environment == {"TPUPROF_PREFLIGHT_TRY": "autocast,scan", "TPUPROF_PREFLIGHT_MESH": "2,2"}
    text = "\n".join(changes_to_make(run, point))
    for each in (
        "argument --fsdp 2",
        "argument --tp 2",
        "argument --remat",
        "torch.autocast",
        "scan_layers(blocks, x)",
        "(2,2)",
    ):
        assert each in text
    base = result((), products=F32)
    assert any("losses change" in each for each in numerics(result(point[2:3]), base))
    assert numerics(result(point[4:]), base) == ["none meant: sums may be taken in another order"]


def search(compiler, offers, *items, budget=24):
    return Engine(
        Found("v5e-1"), parse_search(list(items)), (), PRECISIONS, compiler, budget, print, lambda: offers
    ).run()


BATCHES = tuple(Choice("batch", value, SETTING, True) for value in ("16", "32"))


def test_a_batch_that_gained_nothing_ends_its_doubling():
    class Flat(Compiler):
        def __call__(self, point, again=False):
            found = super().__call__(point, again)
            found.step_ms = 10 * found.samples
            return found

    found = search(Flat(capacity=64), Offered(BATCHES))
    assert [each.point for each in found.tried] == [(), BATCHES[:1]]
    # One that gains goes on, and the winner is compiled again.
    found = search(Compiler(capacity=64), Offered(BATCHES))
    assert found.winner.point == BATCHES[1:]


def test_helpful_changes_are_combined_and_ways_to_run_layers_are_not():
    autocast, remat, scan = (Choice(name, "blocks", TRY, True) for name in ("autocast", "remat", "scan"))
    found = search(Compiler({"autocast": 0.3}, capacity=64), Offered((*BATCHES, autocast), (remat, scan)))
    assert found.winner.point == (BATCHES[1], autocast) or found.winner.point == (autocast, BATCHES[1])
    assert not any({remat, scan} <= set(each.point) for each in found.tried)


@pytest.mark.parametrize(("flops", "status"), [(89, OTHER_WORK), (91, COMPILED), (150, COMPILED)])
def test_a_setting_that_makes_less_work_is_no_gain(flops, status):
    class Less(Compiler):
        def __call__(self, point, again=False):
            found = super().__call__(point, again)
            found.flops, found.samples = (flops if point else 100), None
            found.programs, found.step_ms = (repr(point),), (5 if point else 100)
            return found

    layout = Choice("layout", "small", SETTING, True)
    found = search(Less(), Offered((layout,)))
    assert found.tried[1].status == status
    assert (found.winner is not None) == (status == COMPILED)
    # The user's own settings are the user's to judge.
    own = search(Less(), Offered(), "layout=small")
    assert own.winner is not None


def test_what_does_not_fit_is_first_made_to_fit():
    class Large(Compiler):
        def __call__(self, point, again=False):
            self.asked.append((point, again))
            if not any(each.name == "remat" for each in point):
                return Result(tuple(point), TOO_LARGE, hbm=20 * GIB, compiles=1, programs=(repr(point),))
            return result(point, 50.0, 8 * GIB)

    remat = Choice("remat", "blocks", TRY, True)
    found = search(Large(), Offered(BATCHES, (remat,)))
    assert found.tried[1].point == (remat,)
    assert found.front[0].point == (remat,)


OPTIONS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", "-b", type=int, default=8)
parser.add_argument("--remat", choices=["none", "full"], default="none")
parser.add_argument("--fast", action="store_true")
parser.add_argument("--shape", type=int, nargs=2, default=[1, 2])
parser.add_argument("data")
parser.parse_args(["-b", "4", "x"])
parser.parse_known_args(["x", "--more"])
"""


def test_the_options_of_a_script_are_noted(tmp_path):
    code = f"from tpuprof.preflight.options import after_argparse; after_argparse('argparse'){OPTIONS}"
    subprocess.run([sys.executable, "-c", code], env={"TPUPROF_PREFLIGHT": str(tmp_path)}, check=True)
    notes = read_notes(tmp_path)
    assert option("batch-size", 4) in notes
    assert option("remat", "none", ["none", "full"]) in notes
    assert option("fast", False, switch=True) in notes
    assert {each["name"] for each in notes} == {"batch-size", "remat", "fast"}
    assert all(json.loads(line) for line in (tmp_path / NOTES).read_text().splitlines())
