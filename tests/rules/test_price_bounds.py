"""No price is negative, more than the step, or more than its cause takes; one that had to be cut says so."""

import math

import pytest
from hypothesis import given as any_of
from hypothesis import strategies as st

from tests.builders import US, TraceBuilder
from tests.rules.given import given, step
from tests.rules.situations import reads, started
from tpuprof import parts
from tpuprof.decode.find import find_all
from tpuprof.model.attribution import READY_TO_PS
from tpuprof.model.run import build_run
from tpuprof.render.content import saves
from tpuprof.report.schema import Evidence, Savings
from tpuprof.rules.base import Price, Rule, failed
from tpuprof.rules.docstring import Page
from tpuprof.rules.host.device_to_host_sync.rule import ARE_READY, HAS_WORK
from tpuprof.rules.pricing import (
    AT_MOST_THE_CAUSE,
    DOUBTED_FROM,
    INCONSISTENT_FROM,
    LEAST_MS,
    bounded,
    doubted,
)
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of, run_rules
from tpuprof.rules.thresholds import FAR_BELOW

TIMES = st.floats(0, 1e6, allow_nan=False)
GAINS = st.floats(-1e7, 1e7, allow_nan=False)


@any_of(
    split=st.dictionaries(st.sampled_from(parts.NAMES), TIMES, min_size=1),
    name=st.sampled_from(parts.NAMES),
    low=GAINS,
    high=GAINS,
)
def test_a_price_lies_between_nothing_and_what_its_cause_takes(split, name, low, high):
    wall = math.fsum(split.values()) or 1.0
    cause = split.get(name, 0.0) / wall
    rule = Rule(
        "made", "tests", "preview", "good", "bad", False, Page(""),
        lambda _: failed(cause, [Evidence("it")], price=Price(savings=Savings(low, high, "counterfactual"))), __name__,
    )  # fmt: skip
    (found,) = run_rules(given(steps=[step(wall, **split)]), [rule])
    if found.savings is None:
        assert found.status == "passed"
        return
    saved = found.savings
    assert 0 <= saved.low <= saved.high <= min(cause * wall, wall) * (1 + 1e-9)
    assert 0 <= saved.step_low_ms <= saved.step_high_ms <= wall
    assert found.severity <= 1


@pytest.mark.parametrize(
    ("times", "says"),
    [
        (INCONSISTENT_FROM - 0.01, ""),
        (INCONSISTENT_FROM + 0.01, AT_MOST_THE_CAUSE),
        (DOUBTED_FROM - 0.01, AT_MOST_THE_CAUSE),
        (DOUBTED_FROM + 0.01, "limited to the 10.0 ms per step that the cause takes: the simulation gave "),
    ],
)
def test_a_price_beyond_its_cause_says_so_and_one_far_beyond_is_little_sure(times, says):
    saved = bounded(Savings(10 * times, 20 * times, "counterfactual"), 100.0, 0.1)
    assert (saved.low, saved.high) == (10, 10)
    assert saved.note == (f"{says}{10 * times:.1f} ms" if says else "")
    assert doubted(saved) is (times > DOUBTED_FROM)


@pytest.mark.parametrize(("low", "kept"), [(LEAST_MS / 2, 0.0), (LEAST_MS, LEAST_MS)])
def test_a_rounding_error_of_the_replay_is_no_saving(low, kept):
    saved = bounded(Savings(low, 2.0, "counterfactual"), 100.0, 0.1)
    assert (saved.low, saved.high) == (kept, 2.0)


def test_what_a_start_saves_is_said_of_the_start():
    (found,) = run_rules(
        given(**started(600.0), framework="torch_xla", is_tpu=False), [find_rule("slow-compile")]
    )
    assert saves(found).endswith("at each start")
    assert found.savings.step_low_ms is None


def read_on(device_type, busy, **capture):
    """What is said of a read in each step on such a device, which is busy for such a share of it."""
    facts = reads(1.0, 1 - busy, 50.0)
    facts["report"]["environment"] = {"device_type": device_type}
    return outcome_of(find_rule("device-to-host-sync"), given(**facts, run_info={"capture": capture}))


@pytest.mark.parametrize(
    ("device_type", "busy", "confidence"),
    [("CPU", 0.69, "high"), ("CPU", 0.7, "medium"), ("TPU v6 Lite", 0.7, "high")],
)
def test_from_which_busy_share_on_the_gain_of_a_read_is_little_sure(device_type, busy, confidence):
    outcome = read_on(device_type, busy)
    assert (outcome.status, outcome.confidence) == ("failed", confidence)
    assert (outcome.price.sure > 0) == (confidence == "high")


@pytest.mark.parametrize(("waited", "confidence"), [(None, "high"), (0.49, "high"), (0.5, "medium")])
def test_where_threads_wait_for_a_cpu_the_gain_of_a_read_begins_at_nothing(waited, confidence):
    """Host and device that share too few CPUs take as long side by side as in turns."""
    outcome = read_on("CPU", 0.5, cpu_wait_share=waited)
    assert (outcome.status, outcome.confidence) == ("failed", confidence)


@pytest.mark.parametrize(
    ("used", "sure"),
    [(None, 0.0), (0.5, 0.75), (1.7, 0.15), (2.1, 0.0)],
    ids=["unknown", "one", "most", "all"],
)
def test_host_and_device_that_share_cpus_need_their_work_s_time_on_them(used, sure):
    outcome = read_on("CPU", 0.8, cpus_used=used, cpus=2)
    assert outcome.price.sure == pytest.approx(sure)
    assert read_on("TPU v6 Lite", 0.8, cpus_used=used, cpus=2).price.sure == 1


@pytest.mark.parametrize(("busy", "confidence"), [(0.69, "high"), (0.7, "medium")])
def test_a_counted_gain_is_not_sure_where_the_device_is_mostly_busy(busy, confidence):
    """Metrics of a JAX classifier, read in each step: 5 % was of high confidence, and 17 % was saved."""
    outcome = read_on("CPU", busy, cpus_used=1.5, cpus=2)
    assert (outcome.confidence, outcome.price.sure) == (confidence, pytest.approx(0.25))


def test_a_price_is_sure_of_no_more_than_other_evidence_leaves():
    from tpuprof.rules.base import counterfactual
    from tpuprof.rules.pricing import Pricing
    from tpuprof.simulate.change import Change

    class Simulator:
        error, measured_ms = 0.0, 100.0

        def step_ms(self, change):
            return 60.0

    pricing = Pricing(given(steps=[step(100.0)]), Simulator)
    for sure, low in ((1.0, 40.0), (0.25, 25.0), (0.0, 0.0)):
        saved, _ = pricing.savings(counterfactual(Change(unblock=True), sure=sure))
        assert (saved.low, saved.high) == (low, 40.0)


@pytest.mark.parametrize(
    ("found", "confidence"),
    [({"python_tools": ["pdb"]}, "medium"), ({"python_tools": []}, "high"), ({}, "high")],
)
@pytest.mark.parametrize(("category", "of_the_host"), [("tracing", True), ("host", True), ("compute", False)])
def test_what_a_debugging_tool_slows_has_no_sure_price(found, confidence, category, of_the_host):
    (finding,) = run_rules(given(steps=[step(100.0, tracing=50.0)], **found), [made_up(category)])
    assert finding.confidence == (confidence if of_the_host else "high")


def made_up(category):
    """A rule that is sure of its price."""
    evidence, price = [Evidence("it")], Price(savings=Savings(10.0, 20.0, "measured"))
    return Rule(
        "made", category, "preview", "good", "bad", False, Page(""),
        lambda _: failed(0.5, evidence, price=price, confidence="high"), __name__,
    )  # fmt: skip


@pytest.mark.parametrize(("ceiling", "status"), [(None, "passed"), (0.09, "passed"), (0.11, "failed")])
def test_a_replay_that_gains_little_does_not_decide_alone(ceiling, status):
    """Where other evidence allows for more, the finding stays, with the range between the two and low confidence."""
    found = with_ceiling(1.0, ceiling)
    assert found.status == status
    if status == "failed":
        assert (found.savings.low, found.savings.high, found.confidence) == (1.0, 11.0, "low")


@pytest.mark.parametrize(
    ("gain", "high"), [(28 * FAR_BELOW - 0.1, 28.0), (28 * FAR_BELOW + 0.1, 28 * FAR_BELOW + 0.1)]
)
def test_a_replay_far_below_the_time_at_stake_is_the_lower_end(gain, high):
    """Metrics that are read in each step: "saves 519 to 525 us" of 2.29 ms of turns, and 1.2 to 1.7 ms were saved."""
    found = with_ceiling(gain, 0.28)
    assert (found.savings.low, found.savings.high, found.confidence) == (gain, pytest.approx(high), "high")


def with_ceiling(gain, ceiling):
    """A finding of steps of 100 ms whose replay gains so much (ms), where other evidence allows for that share."""
    from tpuprof.report.schema import Savings
    from tpuprof.rules.base import Outcome, Price
    from tpuprof.rules.registry import find_rule
    from tpuprof.rules.runner import _finding

    class Pricing:
        slowed_by_tools = False
        step_ms, usual_step_ms, sees_device = 100.0, 100.0, True
        unrecorded_ms = None

        def disturbed_share(self, price):
            return 0.0

        def savings(self, price):
            return Savings(gain, gain, "counterfactual"), ""

        def of_captured_steps(self, savings, of_step):
            return savings

    class Places:
        def of(self, outcome, category):
            return outcome.evidence

    outcome = Outcome("failed", share=0.3, price=Price(ceiling=ceiling), confidence="high")
    return _finding(find_rule("device-to-host-sync"), outcome, Pricing(), Places(), "torch_xla")


@pytest.mark.parametrize(
    ("ready", "sure", "confidence"),
    [(0.0, 0.5, "high"), (0.1, 0.4, "medium"), (0.049, 0.451, "high"), (0.9, 0.0, "medium")],
)
def test_the_profilers_part_of_many_reads_is_not_sure_to_be_saved(ready, sure, confidence):
    facts = reads(1.0, 0.5, 50.0)
    facts["report"]["environment"] = {"device_type": "CPU"}
    facts["ready_reads_ms"] = ready * 100.0
    capture = {"cpus_used": 0.5, "cpus": 2}
    outcome = outcome_of(find_rule("device-to-host-sync"), given(**facts, run_info={"capture": capture}))
    assert outcome.price.sure == pytest.approx(sure if ready else 0.75)
    assert outcome.confidence == confidence


@pytest.mark.parametrize(
    ("unwaited", "status"), [(0.0, "failed"), (39.0, "failed"), (41.0, "passed"), (60.0, "passed")]
)
def test_reads_that_wait_for_nothing_make_no_turns(unwaited, status):
    facts = reads(1.0, 0.6, 50.0)
    facts["unwaited_reads_ms"] = unwaited
    outcome = outcome_of(find_rule("device-to-host-sync"), given(**facts))
    assert outcome.status == status
    assert outcome.share == pytest.approx(max(50.0 - unwaited, 0.0) / 100 if status == "failed" else 0.0)
    # "The device has work meanwhile" was said of a device that had nothing to do in these reads.
    assert outcome.reason == (ARE_READY if status == "passed" else "")


def test_reads_beside_which_the_device_works_are_said_so():
    outcome = outcome_of(find_rule("device-to-host-sync"), given(**reads(1.0, 0.09, 50.0)))
    assert (outcome.status, outcome.reason) == ("passed", HAS_WORK)


def of_reads(tmp_path, reads, call):
    """Signals of steps of 1 ms whose program ends after 600 us, and that read so: (begin, duration) in us."""
    trace = TraceBuilder()
    python, device = trace.host().line("python"), trace.host().line("tf_XLAPjRtCpuClient/1")
    for number in range(8):
        at = 1000 * number
        python.event("train", at, 1000, _r=1, step_num=number)
        python.event("PjitFunction(step)", at, 50)
        device.event("ThunkExecutor::Execute (wait for completion)", at + 60, 540)
        for begin, duration in reads:
            python.event("tpuprof.host_read", at + begin, duration, call=call)
    signals = given(steps=[step(1.0) for _ in range(8)])
    signals.__dict__["_run"] = build_run(find_all(trace.write(tmp_path / "host.xplane.pb")))
    return signals


@pytest.mark.parametrize(("count", "ready_ms"), [(1, 0.0), (4, 0.0), (5, 0.08), (6, 0.1)])
def test_reads_after_the_first_of_a_step_find_their_value_ready(tmp_path, count, ready_ms):
    """Each step waits 500 us in its first read; the others follow every 20 us."""
    reads = [(100, 490), *((600 + 20 * each, 10) for each in range(count - 1))]
    signals = of_reads(tmp_path, reads, "__float__")
    assert signals.ready_reads_ms == pytest.approx(ready_ms, abs=0.003)
    # All but the first, of however many, begin when the device is done.
    assert signals.unwaited_reads_ms == pytest.approx(0.01 * (count - 1), abs=0.001)


@pytest.mark.parametrize(("us", "ready_ms"), [(READY_TO_PS / US, 0.1), (READY_TO_PS / US + 1, 0.0)])
def test_a_read_that_copies_for_long_is_no_read_of_a_ready_value(tmp_path, us, ready_ms):
    """39 weights that are copied to the host in each step took 16 ms: "Reads from the device cost little or nothing"."""
    assert of_reads(tmp_path, [(700, us)], "cpu").unwaited_reads_ms == pytest.approx(ready_ms)
