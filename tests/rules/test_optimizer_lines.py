"""`optimizer-loop` names the line that calls the optimizer, so that reports by line show it."""

from dataclasses import replace

import pytest

from tests.rules.given import given
from tests.rules.situations import updates
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of


def outcome(*lines):
    """Of optimizer calls at these lines (`file:line`, ms)."""
    facts = updates(40.0)
    (row,) = facts["host_stacks"]
    facts["host_stacks"] = [replace(row, source=source, exposed_ms_per_step=ms) for source, ms in lines]
    return outcome_of(find_rule("optimizer-loop"), given(**facts))


def lines(found):
    return [(each.source, each.value) for each in found.evidence if each.source]


def test_the_line_that_calls_is_named():
    found = outcome(("train.py:9", 40.0))
    assert "optimizer.step() at train.py:9 keeps" in found.title
    assert lines(found) == [("train.py:9", 40.0)]


def test_where_no_line_has_half_of_it_the_title_names_none():
    found = outcome(("gan.py:3", 13.0), ("gan.py:7", 14.0), ("gan.py:9", 13.0))
    assert "optimizer.step() keeps" in found.title
    assert lines(found)[0] == ("gan.py:7", 14.0)
    assert len(lines(found)) == 3


@pytest.mark.parametrize(("known", "title"), [(19.0, False), (21.0, True)])
def test_a_line_that_is_unknown_counts_for_the_half(known, title):
    found = outcome(("train.py:9", known), ("", 40.0 - known))
    assert (" at train.py:9" in found.title) is title
    assert lines(found) == [("train.py:9", known)]


def own(*stacks):
    """Of calls at train.py:9 of a `step` of one's own, with these frames in it: (frames, samples' source, ms)."""
    facts = updates(40.0, call="wrapper", file="/lib/torch/optim/optimizer.py")
    (row,) = facts["host_stacks"]
    no_grad = "decorate_context (/lib/torch/utils/_contextlib.py:120)"
    facts["host_stacks"] = [
        replace(
            row,
            frames=[*row.frames, no_grad, "step (lion.py:5)", *frames],
            source=source,
            exposed_ms_per_step=ms,
            user_call="m.mul_(b)",
        )
        for frames, source, ms in stacks
    ]
    return outcome_of(find_rule("optimizer-loop"), given(**facts))


def test_of_an_optimizer_of_ones_own_the_line_that_calls_it_is_named_and_those_that_trace():
    found = own(([], "lion.py:5", 30.0), (["decay (lion.py:8)"], "lion.py:8", 10.0))
    assert "optimizer.step() at train.py:9 keeps" in found.title
    assert lines(found) == [("train.py:9", 40.0), ("lion.py:5", 30.0), ("lion.py:8", 10.0)]
    assert any("an optimizer of your own traces: m.mul_(b)" in each.text for each in found.evidence)


@pytest.mark.parametrize(
    ("calls", "updated"),
    [
        ("backward (/lib/torch/_tensor.py:625)", 30.0),
        ("_call_impl (/lib/torch/nn/modules/module.py:1786)", 30.0),
        ("mul (/lib/torch/_tensor.py:30)", 40.0),
    ],
)
def test_a_function_that_trains_in_some_sample_is_a_closure_in_each(calls, updated):
    """Its name does not say so, and most of its samples are at ops of its own."""
    found = own(
        ([], "lion.py:5", 30.0),
        (["loss_of (train.py:3)"], "train.py:3", 9.0),
        (["loss_of (train.py:4)", calls], "train.py:4", 1.0),
    )
    assert lines(found)[0] == ("train.py:9", updated)


def test_a_step_that_calls_the_backward_pass_itself_has_an_update_as_well():
    found = own(([], "lion.py:5", 30.0), (["backward (/lib/torch/_tensor.py:625)"], "lion.py:5", 10.0))
    assert lines(found)[0] == ("train.py:9", 30.0)


@pytest.mark.parametrize(
    ("outer", "cases"),
    [
        ([], {"torch"}),
        (["_inner_training_loop (/lib/transformers/trainer.py:1930)"], {"torch", "trainer"}),
    ],
)
def test_advice_is_for_who_has_the_loop(outer, cases):
    """`optimizer.step` and its parameters are the Trainer's: "call the model with views of it" was said of one."""
    facts = updates(40.0)
    (row,) = facts["host_stacks"]
    facts["host_stacks"] = [replace(row, frames=[*outer, *row.frames])]
    assert outcome_of(find_rule("optimizer-loop"), given(**facts)).cases == cases


def test_an_optimizer_of_ones_own_has_advice_of_its_own():
    assert own(([], "lion.py:5", 30.0)).cases == {"own"}


@pytest.mark.parametrize("rule", ["optimizer-loop", "recompiles-constant"])
def test_advice_is_short_and_has_no_measurements(rule):
    for remedy in find_rule(rule).page.remedies.values():
        for _, text in remedy.paragraphs:
            assert len(text) < 500
            assert " ms" not in text
