"""What reads cost that run graphs of their own: what they block, less what the device may make the host wait for."""

from dataclasses import replace

import pytest

from tests.rules.given import given, steps
from tests.rules.situations import compiled_for_reads, computed_again, reads
from tpuprof.model.compile.recurrence import AfterCapture
from tpuprof.model.read_graphs import BESIDE_READS
from tpuprof.parts import COMPILE, TRACING
from tpuprof.report.sections import HostStackRow
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.rules.shared.read_graphs import AGAIN_OF_BLOCKED, OF_BLOCKED, UNTOLD
from tpuprof.units import PS_PER_MS


def outcome(busy, blocked, twice, device_type="CPU"):
    """Reads that block for so long (ms of 100), and compute so much again, on a device that is busy for so long."""
    facts = computed_again(twice)
    facts |= reads(1.0, 1 - busy / 100, blocked)
    facts["report"]["environment"] = {"device_type": device_type}
    return outcome_of(find_rule("device-to-host-sync"), given(**facts))


@pytest.mark.parametrize(
    ("busy", "blocked", "twice", "low", "high"),
    [
        # At the worst the host waits for the 10 ms of device work that are left: 60 of 100 ms are not its own.
        (20.0, 50.0, 10.0, 40.0, 50.0 * BESIDE_READS),
        # A busy device takes all that the reads gave: what it does twice is saved for sure.
        (60.0, 30.0, 10.0, 10.0, 30.0 * BESIDE_READS),
        # No more than the device idles, and what it does twice.
        (60.0, 70.0, 10.0, 20.0, 50.0),
    ],
)
def test_the_price_lies_between_what_is_sure_and_what_is_blocked(busy, blocked, twice, low, high):
    price = outcome(busy, blocked, twice).price
    assert (price.savings.low, price.savings.high) == (pytest.approx(low), pytest.approx(high))
    assert price.most is not None and price.most.unblock  # for findings that sell the same time


@pytest.mark.parametrize(
    ("blocked", "twice", "named"),
    [
        # Neither part is a tenth of the step; the host gains up to 1.45 times what the read blocks.
        (7.0, 6.0, True),
        (6.8, 6.0, False),
        # It waits for other work of the device.
        (7.0, 7.0 * AGAIN_OF_BLOCKED, True),
        (7.0, 7.0 * AGAIN_OF_BLOCKED - 0.1, False),
    ],
)
def test_parts_of_what_a_read_costs_are_asked_together(blocked, twice, named):
    found = outcome(36.0, blocked, twice)
    assert (found.status == "failed") is named
    if named:
        assert "holds training up for 7 % of each step, and the step computes the same again: " in found.title
        assert (found.price.savings.low, found.price.savings.high) == (
            pytest.approx(twice),
            pytest.approx(blocked * BESIDE_READS),
        )


def test_waits_in_the_graph_cut_are_said_beside_the_price_of_a_read():
    facts = {**computed_again(6.0), **reads(1.0, 0.64, 7.0), "runtime_wait_ms": 29.0}
    facts["report"]["environment"] = {"device_type": "CPU"}
    found = outcome_of(find_rule("device-to-host-sync"), given(**facts))
    assert "29.0 ms per step: how much of that goes with the reads is unknown" in found.reason


def test_on_a_device_of_its_own_the_host_is_not_slowed():
    assert outcome(20.0, 50.0, 10.0, "TPU v6 Lite").price.savings.high == pytest.approx(50.0)


@pytest.mark.parametrize(("busy", "own"), [(20.0 * OF_BLOCKED, True), (20.0 * OF_BLOCKED + 0.1, False)])
def test_reads_hold_training_up_by_their_graphs_where_the_device_works_little(busy, own):
    facts = {**reads(1.0, 1 - busy / 100, 20.0), "graphs_for_reads_ms": 15.0}
    found = outcome_of(find_rule("device-to-host-sync"), given(**facts))
    assert (
        "runs graphs of its own in mid-step, and holds training up for 20 % of each step" in found.title
    ) is own
    assert (found.price.savings is not None) is own


@pytest.mark.parametrize(
    ("source", "call", "around"),
    [
        ("train.py:9", "loss.item()", 45.0),
        ("train.py:10", "loss.item()", 20.0),
        ("train.py:9", "loss.abs()", 20.0),
    ],
)
def test_what_samples_find_at_the_lines_that_read_counts_too(source, call, around):
    """They find entering the call and freeing its graph, which no event holds."""
    stacks = [HostStackRow(TRACING, [f"step ({source})"], "torch.add(", source, call, 40.0, 5.0)]
    facts = {**reads(1.0, 0.9, 20.0), "graphs_for_reads_ms": 15.0, "stacks_if_sampled": stacks}
    found = outcome_of(find_rule("device-to-host-sync"), given(**facts))
    assert found.price.savings.high == pytest.approx(around)


@pytest.mark.parametrize(("blocked", "named"), [(0.6, True), (0.4, False)])
def test_compiles_do_not_make_what_reads_cost_a_little_thing(blocked, named):
    """Compiles take 95 of 100 ms; a tenth of the rest is 0.5 ms."""
    facts = reads(1.0, 0.97, blocked) | {"steps": steps(compile=95.0)}
    found = outcome_of(find_rule("device-to-host-sync"), given(**facts))
    assert (found.status == "failed") is named
    assert found.at_stake == (", up to 12 % of each step without its compiles" if named else "")


def test_graphs_of_reads_without_lines_widen_the_price():
    """Of 5 ms more it is unknown whether a device that idles for 10 ms does them again."""
    facts = computed_again(10.0)
    facts["report"]["environment"] = {"device_type": "CPU"}
    (row,) = facts["read_graphs"]
    told = outcome_of(find_rule("device-to-host-sync"), given(**facts)).price.savings
    facts["read_graphs"] = [replace(row, untold_ps=50 * PS_PER_MS)]  # of ten steps
    untold = outcome_of(find_rule("device-to-host-sync"), given(**facts))
    assert untold.price.savings.low == told.low
    assert (told.high, untold.price.savings.high) == (pytest.approx(20.0), pytest.approx(25.0))
    assert UNTOLD in [each.text for each in untold.evidence]


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([], "train.py:5 runs graphs of its own"),
        (["train.py:5"], "train.py:5 and 1 other read there run graphs of their own"),
        (
            ["train.py:6", "train.py:6", "train.py:7"],
            "train.py:5 and reads at 2 other lines run graphs of their own",
        ),
    ],
)
def test_other_lines_are_other_lines(others, said):
    """`loss.item()` and `float(norm)` in one line were a read "and reads at 1 other line"."""
    facts = computed_again(20.0)
    (first,) = facts["read_graphs"]
    rows = [first, *(replace(first, call="__float__", source=each, again_ps=5) for each in others)]
    found = outcome_of(find_rule("device-to-host-sync"), given(**{**facts, "read_graphs": rows}))
    assert said in found.title


@pytest.mark.parametrize(("in_reads", "named"), [(10.0, True), (9.9, False)])
def test_compiles_of_graphs_that_reads_run_go_with_the_reads(in_reads, named):
    """Eleven reads of norms compiled for 11 of 13.5 s, and 328 to 426 ms was said; without them 9.7 s was saved."""
    found = outcome_of(find_rule("device-to-host-sync"), given(**compiled_for_reads(20.0, in_reads)))
    assert ("; these graphs compile for 10.0 ms per step" in found.title) == named
    savings = found.price.savings
    assert savings.low == pytest.approx(11.0 + in_reads * named)
    assert savings.high >= savings.low
    # The change shares that time with a cure of what changes the graphs.
    assert found.price.most.host.get(COMPILE, 1.0) == pytest.approx(1 - in_reads / (20.0 + in_reads) * named)


def test_compiles_of_reads_that_never_come_again_do_not():
    after = AfterCapture(100, 0, 0, 0.0, 10.0, ended=True, lengths={})
    found = outcome_of(find_rule("device-to-host-sync"), given(**compiled_for_reads(20.0, 30.0, after)))
    assert "these graphs compile" not in found.title
    assert found.price.savings.low == pytest.approx(11.0)
