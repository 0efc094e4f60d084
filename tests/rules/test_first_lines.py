"""What a finding names first, and what its price is of, where several lines take part."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.rules.given import given, read, steps
from tests.rules.situations import computed_again, reads
from tpuprof.report.sections import HostStackRow
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.rules.shared.read_cases import ADVISED_FROM_SHARE

LINE = "train.py:9"


def in_crop(line, ms, *inside):
    """Time at that line of a function that crops, or inside of what it calls there."""
    frames = ["train (train.py:50)", f"crop (train.py:{line})", *inside]
    source = frames[-1].rpartition("(")[2].rstrip(")")
    return HostStackRow("host:python", frames, "v > 0", source, "v > 0", ms, 0.0, samples=50)


def test_the_line_in_the_title_is_the_first_that_is_shown():
    """The title named lines 43 and 42, and the finding stood "at train.py:32"."""
    counts = [in_crop(43, 7.0, "count (train.py:32)"), in_crop(43, 5.0, "count (train.py:33)")]
    rows = [*counts, in_crop(43, 4.0), in_crop(42, 3.0)]
    found = outcome_of(find_rule("host-blocked"), given(steps=steps(), host_stacks=rows))
    assert "at train.py:43, 42 (in crop)" in found.title
    assert found.evidence[0].source == "train.py:43"


@pytest.mark.parametrize(
    ("other", "title", "confidence"),
    [
        (None, f".item() at {LINE} makes host and device take turns", "high"),
        (read("cpu", 1.0, LINE), f".item() at {LINE} makes host and device take turns", "high"),
        (
            read("cpu", 1.0, "train.py:12"),
            f".item() at {LINE} and reads at 1 other line make host and device take turns",
            "medium",
        ),
    ],
    ids=["one", "same line", "another"],
)
def test_where_several_lines_read_the_price_is_of_all_of_them(other, title, confidence):
    """Without the first one the next one waits instead: a condition in a model went, and `.cpu()` behind it waited."""
    facts = reads(1.0, 0.5, 50.0)
    facts["report"] = {"host_reads": [*facts["report"]["host_reads"], *([other] if other else [])]}
    facts["report"]["environment"] = {"device_type": "TPU v5e"}
    found = outcome_of(find_rule("device-to-host-sync"), given(**facts))
    assert (found.title, found.confidence) == (title, confidence)


@pytest.mark.parametrize(("share", "cases"), [(1.0, {"branch", "value", "arrays"}), (0.9, {"branch"})])
def test_reads_that_block_little_need_no_advice(share, cases):
    facts = reads(1.0, 0.5, 40.0, "__bool__")
    rest = share * ADVISED_FROM_SHARE / (1 - ADVISED_FROM_SHARE) * 40.0
    facts["report"] = {"host_reads": [*facts["report"]["host_reads"], read("cpu", rest, "train.py:12")]}
    assert outcome_of(find_rule("device-to-host-sync"), given(**facts)).cases == cases


CHECK = "torch/distributions/distribution.py:76"


@pytest.mark.parametrize(
    ("call", "inside", "cases"),
    [
        ("__bool__", CHECK, {"library"}),
        ("__bool__", "", {"branch"}),
        ("__array__", CHECK, {"arrays", "value"}),
    ],
    ids=["library", "program", "given to a library"],
)
def test_a_check_that_a_library_makes_is_to_be_turned_off(call, inside, cases):
    """A VAE without a condition of its own was advised `torch.where` for the checks of `torch.distributions`."""
    facts = reads(1.0, 0.5, 50.0, call)
    frames = [f"forward ({LINE})", *([f"__init__ (/v/site-packages/{inside})"] if inside else [])]
    stacks = [HostStackRow("device_to_host_sync", frames, "Normal(m, s)", LINE, "Normal(m, s)", 40.0, 5.0)]
    found = outcome_of(find_rule("device-to-host-sync"), given(**{**facts, "stacks_if_sampled": stacks}))
    place = f" (in {inside})" if inside else ""
    assert f" at {LINE}{place} makes host and device take turns" in found.title
    assert found.cases == cases


@pytest.mark.parametrize(
    ("samples", "way"), [(None, "capture with `tpuprof capture -- ...`"), ("some", "capture more steps")]
)
def test_a_capture_that_sampled_is_not_told_to_sample(samples, way):
    signals = given(steps=steps(host_other=20.0), report={"environment": {"framework": "jax"}})
    signals.__dict__["_run"] = SimpleNamespace(
        hosts=[SimpleNamespace(activity=SimpleNamespace(samples=samples))]
    )
    with pytest.raises(Exception, match=way):
        _ = signals.typical_tracing_ms


@pytest.mark.parametrize(
    ("inside", "again", "cases"),
    [
        ("torch/optim/lbfgs.py:408", True, {"optimizer"}),
        # Its closure cuts the graph already.
        ("torch/optim/lbfgs.py:408", False, {"library"}),
        ("torch/optim/lr_scheduler.py:9", True, {"library", "early"}),
    ],
)
def test_an_optimizer_that_reads_what_its_closure_computed_needs_a_cut_in_that(inside, again, cases):
    """Steps of L-BFGS took 264 ms, and 35 with a sync at the end of the closure: the advice was to read later."""
    facts = computed_again(20.0) if again else reads(1.0, 0.5, 50.0)
    facts["report"] = {"host_reads": [read("__bool__", 40.0)]}
    frames = [f"main ({LINE})", f"step (/v/site-packages/{inside})"]
    stacks = [
        HostStackRow("device_to_host_sync", frames, "optimizer.step(closure)", LINE, "step()", 40.0, 5.0)
    ]
    found = outcome_of(find_rule("device-to-host-sync"), given(**{**facts, "stacks_if_sampled": stacks}))
    assert (found.status, found.cases) == ("failed", cases)


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([], " runs graphs of its own"),
        ([LINE], " and 1 other read there run graphs of their own"),
        ([""], " and 1 other read run graphs of their own"),
        (["train.py:99"], " and reads at 1 other line run graphs of their own"),
        (["train.py:99", ""], " and reads at 1 other line run graphs of their own"),
    ],
)
def test_a_read_without_a_line_is_at_no_other_line(others, said):
    """Reads that no sample shows were "1 other line"."""
    facts = computed_again(20.0)
    (first,) = facts["read_graphs"]
    first = replace(first, source=LINE)
    more = [replace(first, call="cpu", source=source, again_ps=first.again_ps - 1) for source in others]
    found = outcome_of(find_rule("device-to-host-sync"), given(**{**facts, "read_graphs": [first, *more]}))
    assert f"{LINE}{said} in mid-step" in found.title


@pytest.mark.parametrize(("runtime", "confidence"), [(50.0, "high"), (50.1, "low")])
def test_a_read_beside_longer_waits_of_the_runtime_is_little_sure(runtime, confidence):
    """torch_xla's loop over micro-batches with a read per step: 99 ms, and 100 without it ("up to 15 %", medium)."""
    facts = reads(1.0, 0.5, 50.0, runtime=runtime)
    facts["report"] = {**facts["report"], "environment": {"device_type": "TPU v5e"}}
    assert outcome_of(find_rule("device-to-host-sync"), given(**facts)).confidence == confidence


@pytest.mark.parametrize(
    ("noted", "place", "cases"),
    [
        ({"/v/site-packages/transformers/masking_utils.py:292": 9, "/v/site-packages/transformers/masking_utils.py:298": 9},
         " (in transformers/masking_utils.py:292 and 1 other line)", {"library"}),
        # The program itself reads, whatever a sample shows.
        ({}, "", {"branch"}),
        (None, f" (in {CHECK})", {"library"}),
    ],
)  # fmt: skip
def test_a_read_is_where_the_capture_noted_it_and_else_where_samples_show_it(noted, place, cases):
    """transformers looks at the mask in `model(**batch)`: no sample saw it, and the advice was `torch.where`."""
    facts = reads(1.0, 0.5, 50.0, "__bool__")
    (row,) = facts["report"]["host_reads"]
    facts["report"] = {"host_reads": [replace(row, source=LINE, inside=noted)]}
    frames = [f"forward ({LINE})", f"__init__ (/v/site-packages/{CHECK})"]
    stacks = [HostStackRow("device_to_host_sync", frames, "model(x)", LINE, "model(x)", 40.0, 5.0)]
    found = outcome_of(find_rule("device-to-host-sync"), given(**{**facts, "stacks_if_sampled": stacks}))
    assert f" at {LINE}{place} makes host and device take turns" in found.title
    assert found.cases == cases
