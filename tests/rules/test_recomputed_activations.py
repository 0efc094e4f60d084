"""What is said of activations that are computed again: whether memory has room, what is saved, and the line."""

import pytest

from tests.rules.given import given
from tests.rules.situations import again
from tpuprof.report.sections import HostStackRow
from tpuprof.rules.compute.recomputed_activations.rule import SAVED_AT_LEAST
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of

LIBRARY = "/site-packages/torch_xla/utils/checkpoint.py"


def outcome(**more):
    return outcome_of(find_rule("recomputed-activations"), given(**{**again(20.0), **more}))


@pytest.mark.parametrize(
    ("facts", "said", "confidence"),
    [
        ({}, "memory has room to keep them", "medium"),
        ({"recomputed_bytes": None}, "whether memory has room to keep them is unknown", "low"),
    ],
)
def test_confidence_is_that_of_the_memory(facts, said, confidence):
    found = outcome(**facts)
    assert said in found.title and "20 % of the device's time" in found.title
    assert found.confidence == confidence


def test_the_price_begins_at_what_is_left_of_it_where_results_are_written_and_read():
    price = outcome().price
    changes = [change.device["compute"] for change in (price.most, price.least)]
    assert changes == pytest.approx([0.8, 1 - 0.2 * SAVED_AT_LEAST])


def stack(*frames, samples=3):
    return HostStackRow("tracing", list(frames), "", "", "", 1.0, 0.0, samples)


def test_the_line_is_the_one_that_calls_checkpoint():
    """The ops' own lines are those of a library's layers."""
    called = [
        "main (train.py:30)",
        "forward (model.py:15)",
        f"checkpoint ({LIBRARY}:302)",
        "forward (layer.py:8)",
    ]
    backward = ["main (train.py:31)", f"backward ({LIBRARY}:210)", "forward (layer.py:8)"]
    other = ["main (train.py:33)", "step (/site-packages/torch/optim/adam.py:247)"]
    rows = [stack(*called), stack(*backward, samples=50), stack(*other, samples=90)]
    first = outcome(stacks_if_sampled=rows).evidence[0]
    assert (first.text, first.source) == ("calls checkpoint", "model.py:15")


def test_a_prediction_has_no_thread_whose_stacks_could_tell():
    signals = given(**{name: value for name, value in again(20.0).items() if name != "stacks_if_sampled"})
    found = outcome_of(find_rule("recomputed-activations"), signals)
    assert (found.status, found.evidence[0].source) == ("failed", "train.py:3")
