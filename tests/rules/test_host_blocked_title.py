"""The title of `host-blocked` names all that its price takes out, where that is more than the time at its line."""

from dataclasses import replace

import pytest

from tests.rules.given import asleep, given, op, step
from tpuprof.rules.host.host_blocked.rule import SEEN_FROM_SHARE, TOLD_FROM_SHARE
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of, run_rules

AT_LINE = "The host sleeps at train.py:9 (time.sleep(x)) for 10.0 ms per step while the device idles"
MUCH, LITTLE = 10.0 * TOLD_FROM_SHARE, 10.0 * TOLD_FROM_SHARE - 0.1


def elsewhere(ms, part="host:sleep"):
    frames, source = ["log (log.py:3)"], "log.py:3"
    return replace(asleep(ms, part=part), frames=frames, source=source, user_call="time.sleep(y)")


def test_time_that_no_sample_saw_is_not_of_other_lines():
    """`gc.collect()` in the last captured step ended behind the capture: 45 ms of a mean of 225 had no sample."""
    (found,) = run_rules(
        given(
            steps=[step(100, row, **{"host:sleep": 14.0}) for row in range(8)],
            host_stacks=[asleep(10.0), elsewhere(1.0)],
            sampled_host_ms={"host:sleep": 14.0},
        ),
        [find_rule("host-blocked")],
    )
    assert found.title == f"{AT_LINE}; of 4.00 ms more the line is unknown"


@pytest.mark.parametrize(
    ("stacks", "said"),
    [
        ([asleep(10.0)], ""),
        ([asleep(10.0, LITTLE)], ""),
        ([asleep(10.0, MUCH)], ", and for 2.00 ms while it works"),
        ([asleep(10.0), elsewhere(LITTLE)], ""),
        (
            [asleep(10.0), elsewhere(MUCH)],
            "; other lines take 2.00 ms more, most of it at log.py:3 (time.sleep(y))",
        ),
        (
            [asleep(10.0, 5.0), elsewhere(4.0, "user:gc")],
            ", and for 5.00 ms while it works; 4.00 ms more go to Python garbage collection, most of it at log.py:3 "
            "(time.sleep(y))",
        ),
        (
            [asleep(10.0), elsewhere(4.0, "user:gc"), elsewhere(3.0, "host:io")],
            "; 7.00 ms more go to Python garbage collection and such, most of it at log.py:3 (time.sleep(y))",
        ),
    ],
)
def test_the_title_tells_what_else_the_price_takes_out(stacks, said):
    parts = {}
    for row in stacks:
        parts[row.part] = parts.get(row.part, 0.0) + row.exposed_ms_per_step
    (found,) = run_rules(
        given(
            steps=[step(100, row, **parts) for row in range(8)],
            host_stacks=stacks,
            sampled_host_ms=parts,
        ),
        [find_rule("host-blocked")],
    )
    assert found.title == AT_LINE + said


@pytest.mark.parametrize(("part", "left"), [("host:gil", 0.0), ("host:python", 1 - 10 / 14)])
def test_waits_for_the_lock_end_at_all_lines_together(part, left):
    outcome = outcome_of(
        find_rule("host-blocked"),
        given(
            steps=[step(100, row, **{part: 14.0}) for row in range(8)],
            host_stacks=[asleep(10.0, part=part), elsewhere(4.0, part)],
            sampled_host_ms={part: 14.0},
        ),
    )
    assert outcome.price.most.host == {part: pytest.approx(left)}


def test_what_a_module_computes_on_the_host_the_device_has_to_compute():
    frames = ["train.py:9 (train)", "forward (/v/site-packages/torch/nn/modules/linear.py:9)"]
    outcome = outcome_of(
        find_rule("host-blocked"),
        given(
            steps=[step(100, row, **{"host:python": 14.0}) for row in range(8)],
            host_stacks=[replace(asleep(14.0, part="host:python"), frames=frames)],
            sampled_host_ms={"host:python": 14.0},
        ),
    )
    assert outcome.price.most.host == {"host:python": pytest.approx(1.0)}


@pytest.mark.parametrize(
    ("dispatch", "said"),
    [
        (2.5, "; without it, up to 2.50 ms of the host's other work may run beside the device"),
        (
            20.0 * SEEN_FROM_SHARE + 0.001,
            "; without it, up to 201 µs of the host's other work may run beside the device",
        ),
        (20.0 * SEEN_FROM_SHARE - 0.01, ""),
    ],
)
def test_a_callbacks_title_names_what_may_run_ahead_without_it(dispatch, said):
    """The price ends where the host no longer waits: 9.17 ms to 10.1 ms of a callback of "up to 9.25 ms" was said."""
    rows = [step(100, row, host_callback=20.0, dispatch=dispatch, compute=80 - dispatch) for row in range(8)]
    signals = given(steps=rows, ops=[op("debug_callback.1", kind="host_callback")], callback_alone_ms=20.0)
    outcome = outcome_of(find_rule("host-blocked"), signals)
    waits = "The program calls Python on the host at train.py:3, and waits for it up to 20.0 ms per step"
    assert outcome.title == f"{waits}{said}"
    assert outcome.share * 100 == pytest.approx(20.0 + dispatch)


def test_why_a_callback_costs_time_is_no_word_of_the_training_thread():
    rows = [step(100, row, host_callback=20.0, compute=80.0) for row in range(8)]
    signals = given(steps=rows, ops=[op("debug_callback.1", kind="host_callback")], callback_alone_ms=20.0)
    (callback,) = run_rules(signals, [find_rule("host-blocked")])
    assert "does not end before that has returned" in callback.why
    assert "thread" not in callback.why
    parts = {"host:sleep": 20.0}
    (sleep,) = run_rules(
        given(steps=[step(100, row, **parts) for row in range(8)], host_stacks=[asleep(20.0)]),
        [find_rule("host-blocked")],
    )
    assert "The thread that builds and hands over the graphs" in sleep.why
    assert "callback" not in sleep.why
