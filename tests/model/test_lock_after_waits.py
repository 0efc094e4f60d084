"""A call that waits for the device needs Python's lock before it ends: it also waits for the thread that holds it."""

import pytest

from tests.builders import TraceBuilder

LINE = {
    "frames": "main (/home/u/train.py:9)",
    "call": "jax.block_until_ready(loss)",
    "source": "/home/u/train.py:9",
    "user_call": "jax.block_until_ready(loss)",
}
STEPS, STEP = 6, 20_000


def loop(*, call="block_until_ready", busy=1_000, others=0.95, device=True):
    """Steps of 20 ms: a call, then a wait of 18 ms for the device, which is busy for `busy` us of it."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(STEPS):
        at = number * STEP
        python.event("train", at, STEP, _r=1, step_num=number)
        python.event("PjitFunction(step)", at + 1_000, 500)
        python.event("tpuprof.host_read", at + 1_500, 18_000, call=call, source=LINE["source"])
        if device:
            trace.tpu(0).line("XLA Modules").event("step(7)", at + 1_500, busy)
            trace.tpu(0).line("XLA Ops").event("dot.1", at + 1_500, busy)
        for begin in (0, 10_000):
            words = LINE if not number and not begin else {}
            trace.sampled(at + begin, 10_000, cpu=100, others=others * 10_000, stack=1, **words)
    return trace


def parts(host):
    return {name: column.sum() / 1e9 / STEPS for name, column in host.breakdown.parts.items() if column.any()}


def test_what_follows_the_devices_work_is_a_wait_for_the_lock(read):
    host = read(loop())
    assert parts(host)["host:gil"] == pytest.approx(18.5, abs=1)
    assert parts(host).get("device_to_host_sync", 0.0) < 1.5
    (waited,) = host.host_reads
    assert waited.blocked_ps / 1e9 / STEPS < 2.5


def test_the_verdict_names_it(analyze):
    report = analyze(loop())
    assert report.verdict.bound == "host"
    assert "another thread releases Python's lock (the GIL)" in report.verdict.sentence
    assert not [
        each for each in report.findings if each.rule == "device-to-host-sync" and each.status == "failed"
    ]


def test_a_read_of_one_number_that_lasts_longer_than_its_copy_waits_for_the_lock(read):
    host = read(loop(call="__float__"))
    assert parts(host)["host:gil"] == pytest.approx(18.5, abs=1)


@pytest.mark.parametrize(("after", "waits"), [(1_900, False), (2_100, True)])
def test_how_long_a_number_takes_from_the_device(read, after, waits):
    """The copy of a number takes time too: what follows the device's work by less than that is no wait for the lock."""
    host = read(loop(call="__float__", busy=18_000 - after))
    assert parts(host).get("device_to_host_sync", 0.0) == pytest.approx(0.0 if waits else 1.9, abs=0.05)


@pytest.mark.parametrize(
    "facts",
    [
        {"busy": 18_000},  # the device works all the time
        {"busy": 18_000, "call": "__float__"},
        {"others": 0.0, "call": "__float__"},
        {"others": 0.0},  # no other thread of the program runs
        {"call": "__array__"},  # it also copies, which may take that long
        {"device": False},  # nothing shows what the device does
    ],
)
def test_other_waits_stay_what_they_are(read, facts):
    host = read(loop(**facts))
    assert parts(host).get("host:gil", 0.0) < 2.5
    (waited,) = host.host_reads
    assert waited.blocked_ps / 1e9 / STEPS == pytest.approx(18)
