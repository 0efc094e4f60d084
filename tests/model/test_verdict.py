"""The verdict on both sides of each threshold."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tests.builders import US, TraceBuilder
from tpuprof.analysis.sections.read_words import how_often, named_read
from tpuprof.analysis.sections.verdict import _runs_ahead
from tpuprof.model.compile_verdict import AHEAD_BELOW, COMPILES_FROM_SHARE, compile_sentence
from tpuprof.model.decisions import Decisions
from tpuprof.model.host.blocking_waits import WAIT_FROM_PS
from tpuprof.model.intervals import Spans
from tpuprof.model.read_graphs import BESIDE_READS
from tpuprof.model.step_times import Bound, StepTimes
from tpuprof.model.verdict import AS_LARGE_FROM, IDLES_BEYOND, SLOWER_FROM, bound_of
from tpuprof.model.verdict_reads import BALANCE_FOR_SYNC, OF_TRACING_FOR_READS
from tpuprof.model.verdict_sentence import IDLE_BESIDE_FROM_SHARE, LARGER_FROM, sentence
from tpuprof.model.verdict_words import (
    DEVICE_BOUND_FROM_SHARE,
    MOSTLY_BUSY_FROM_SHARE,
    NAMED_FROM_SHARE,
    READS_IN_STEPS_SHARE,
)
from tpuprof.report.schema import HostReadRow
from tpuprof.report.sections import HostStackRow
from tpuprof.units import PS_PER_MS


def load(parts, *, wall=100.0, host_work=0.0, reads=0.0, waited=0.0):
    rest = wall - sum(parts.values())
    parts = {"compute": 0.0, **parts}
    parts["compute"] += rest
    busy = sum(
        ms for name, ms in parts.items() if name in ("compute", "offload_exposed", "collective_exposed")
    )
    return StepTimes(wall, parts, busy, host_work, reads, waited)


@pytest.mark.parametrize(
    ("part", "word"),
    [
        ("tracing", "tracing"),
        ("compile", "compile"),
        ("input_wait", "input"),
        ("host_to_device", "input"),
        ("infeed_outfeed", "input"),
        ("device_to_host_sync", "sync"),
        ("offload_exposed", "offload"),
        ("collective_exposed", "collective"),
        ("dispatch", "dispatch"),
        ("host_callback", "callback"),
    ],
)
def test_each_part_has_its_word_from_the_threshold_on(part, word):
    at = NAMED_FROM_SHARE * 100
    reads = float(word == "sync")
    assert bound_of(load({part: at}, reads=reads)).word == word
    assert bound_of(load({part: at - 0.1}, reads=reads)).word == "device"


def test_a_busy_device_that_is_read_now_and_then_is_not_held_up_by_reads():
    waits = 100 * (1 - MOSTLY_BUSY_FROM_SHARE)
    assert bound_of(load({"device_to_host_sync": waits}, reads=READS_IN_STEPS_SHARE - 0.01)).word == "device"
    assert bound_of(load({"device_to_host_sync": waits}, reads=READS_IN_STEPS_SHARE)).word == "sync"
    assert bound_of(load({"device_to_host_sync": waits + 1})).word == "sync"


def test_idle_time_without_a_cause_is_the_verdict_only_where_the_device_idles_for_long():
    idle = 100 * (1 - MOSTLY_BUSY_FROM_SHARE)
    busy, idling = load({"unknown": idle}), load({"unknown": idle + 1})
    assert bound_of(busy).word == "device"
    text = sentence(bound_of(busy), busy, 0.0)
    assert text == (
        "Mostly device-bound: the device is busy for 70 % of each step (70.0 ms of 100 ms). It idles for 30 % (30.0 ms) while the "
        "host does something the trace does not name."
    )
    assert bound_of(idling).word == "unknown"


def test_of_a_busy_device_whose_idle_time_is_in_few_steps_it_says_so():
    """19 of 20 steps were busy for all their time, and "72 % of each step" was said."""
    few = "nearly all of it in 1 of 20 steps"
    one = load({"unknown": 28.0})
    assert sentence(bound_of(one), one, 0.0, few=few) == (
        "Mostly device-bound: the device is busy for 72 % of the steps' time (72.0 ms of 100 ms on average). It idles for 28 % "
        "(28.0 ms, nearly all of it in 1 of 20 steps) while the host does something the trace does not name."
    )
    several = load({"input_wait": 7.0, "unknown": 8.0})
    assert sentence(bound_of(several), several, 0.0, few=few) == (
        "Mostly device-bound: the device is busy for 85 % of the steps' time (85.0 ms of 100 ms on average), and no single "
        "cause of its idling (nearly all of it in 1 of 20 steps) reaches 10 %."
    )


def test_a_known_cause_comes_before_idle_time_without_one_where_the_device_is_mostly_busy():
    at = NAMED_FROM_SHARE * 100
    assert bound_of(load({"unknown": at + 5, "tracing": at})).word == "tracing"
    assert bound_of(load({"unknown": at + 5, "tracing": at - 1})).word == "device"


def test_the_largest_part_decides():
    assert bound_of(load({"tracing": 20, "input_wait": 30})).word == "input"
    assert bound_of(load({"tracing": 30, "input_wait": 20})).word == "tracing"


def test_parts_of_one_cause_count_together():
    assert bound_of(load({"tracing": 12, "input_wait": 7, "host_to_device": 7})).word == "input"


def test_a_busy_device_of_which_the_trace_shows_no_op_is_said_to_be_that():
    def said(share):
        of_step = {"compute": 1 - share, "other_device": share}
        given = StepTimes(100.0, {name: 100 * each for name, each in of_step.items()}, 100.0, 0.0, 0.0)
        return sentence(bound_of(given), given, 0.0)

    ends = "For 10 % (10.0 ms) it is inside a program, and the trace shows no op that computes or moves data."
    assert said(NAMED_FROM_SHARE).endswith(ends)
    assert "no op" not in said(NAMED_FROM_SHARE - 0.01)


def test_device_bound_says_how_busy():
    busy = bound_of(load({"tracing": 5}))
    assert (busy.word, busy.share) == ("device", 0.95)
    assert "Device-bound" in sentence(busy, load({"tracing": 5}), 0.0)
    split = {"tracing": 9, "input_wait": 9, "dispatch": 9}
    assert DEVICE_BOUND_FROM_SHARE > 1 - 0.27
    assert "Mostly device-bound" in sentence(bound_of(load(split)), load(split), 0.0)


def test_a_read_that_makes_host_and_device_take_turns():
    """Device 55 ms, host 45 ms, one after the other: side by side the step would take 55 ms."""
    turns = load({"tracing": 45}, host_work=45, reads=1.0)
    bound = bound_of(turns)
    assert bound.word == "sync"
    assert bound.ms == pytest.approx(45)
    assert bound_of(load({"tracing": 45}, host_work=45, reads=0.0)).word == "tracing"


def test_turns_that_the_runtime_forces_leave_the_slower_of_the_two():
    """Device 60 ms, then host 40 ms: the wait between them is the runtime's own, and nobody reads."""
    slow_device = load({"tracing": 40}, host_work=60 / SLOWER_FROM, waited=50)
    bound = bound_of(slow_device)
    assert (bound.word, bound.share, bound.turns) == ("device", 0.6, 40)
    text = sentence(bound, slow_device, 0.0)
    assert text.startswith("Mostly device-bound: the device is busy for 60 % of each step")
    assert "waits 50.0 ms for the device inside the runtime" in text
    about_as_long = load({"tracing": 40}, host_work=60 / SLOWER_FROM + 1, waited=50)
    bound = bound_of(about_as_long)
    assert bound.word == "undecided"
    text = sentence(bound, about_as_long, 0.0)
    assert "60.0 ms of each step" in text
    assert "the host works for 49.0 ms, most of it tracing" in text
    assert bound_of(load({"tracing": 40}, host_work=60 * SLOWER_FROM + 1, waited=50)).word == "tracing"


@pytest.mark.parametrize(
    ("host_work", "word"), [(40 / IDLES_BEYOND, "tracing"), (40 / IDLES_BEYOND + 1, "device")]
)
def test_a_wait_in_the_runtime_with_an_idle_device_is_no_wait_for_its_programs(host_work, word):
    """ "Mostly device-bound: the device is busy for 27 % of each step" was said of calls that copy 200 MB each time."""
    assert bound_of(load({"tracing": 40}, host_work=host_work, waited=50)).word == word


@pytest.mark.parametrize(
    ("busy", "word"),
    [(MOSTLY_BUSY_FROM_SHARE * 100, "device"), (MOSTLY_BUSY_FROM_SHARE * 100 - 1, "dispatch")],
)
def test_a_device_that_is_busy_for_most_of_the_step_decides_though_it_idles_in_waits(busy, word):
    """The host waits until donated buffers are free, and the next program then takes its memory: a healthy loop."""
    assert bound_of(load({"dispatch": 100 - busy}, host_work=3, waited=80)).word == word


@pytest.mark.parametrize(("waited", "word"), [(NAMED_FROM_SHARE * 100, "device"), (9.9, "tracing")])
def test_a_host_that_hardly_waits_holds_the_step_back(waited, word):
    assert bound_of(load({"tracing": 40}, host_work=30, waited=waited)).word == word


def test_a_sleep_is_named_though_the_runtime_waits_as_well():
    assert bound_of(load({"host:sleep": 40}, host_work=40, waited=50)).word == "host"


def test_a_read_matters_only_if_the_device_is_not_far_the_faster():
    host = 50.0
    slow = load({"tracing": 100 - BALANCE_FOR_SYNC * host}, host_work=host, reads=1.0)
    fast = load({"tracing": 101 - BALANCE_FOR_SYNC * host}, host_work=host, reads=1.0)
    assert bound_of(slow).word == "sync"
    assert bound_of(fast).word == "tracing"


def test_a_read_now_and_then_is_no_rhythm():
    assert bound_of(load({"tracing": 45}, host_work=45, reads=READS_IN_STEPS_SHARE)).word == "sync"
    assert bound_of(load({"tracing": 45}, host_work=45, reads=READS_IN_STEPS_SHARE - 0.01)).word == "tracing"


def test_a_users_annotation_is_named():
    eating = load({"user:[red]checkpoint": 40})
    bound = bound_of(eating)
    assert (bound.word, bound.name) == ("annotation", "[red]checkpoint")
    assert "[red]checkpoint" in sentence(bound, eating, 0.0)


def test_what_tpuprof_annotates_has_a_word_of_its_own():
    collecting = load({"user:gc": 40})
    bound = bound_of(collecting)
    assert (bound.word, bound.name) == ("gc", "gc")
    assert sentence(bound, collecting, 0.0).startswith(
        "Held back by garbage collections: the device idles for 40 %"
    )


def test_no_steps_at_all():
    assert bound_of(StepTimes(0.0, {}, 0.0, 0.0, 0.0)).word == "unknown"


def test_hidden_tracing_is_mentioned_when_it_is_large():
    tracing = load({"tracing": 60})
    assert "hidden" in sentence(bound_of(tracing), tracing, 10.0)
    assert "hidden" not in sentence(bound_of(tracing), tracing, 9.9)


def test_compiles_in_some_steps_are_no_share_of_each_step():
    text = compile_sentence([(100.0, 90.0), (100.0, 95.0), *[(10.0, 0.0)] * 6])
    assert "2 of 8 steps compile" in text
    assert "71 % of the captured steps' time (185 ms of 260 ms)" in text
    assert text.endswith("the median step without a compile takes 10.0 ms.")
    assert "each step" not in text


def test_one_step_without_a_compile_is_no_median():
    text = compile_sentence([(100.0, 90.0), (100.0, 95.0), (10.0, 0.0)])
    assert text.endswith("the one step without a compile took 10.0 ms.")
    assert "median" not in text


@pytest.mark.parametrize(("usual", "ahead"), [(AHEAD_BELOW - 0.01, True), (AHEAD_BELOW, False)])
def test_where_the_host_runs_ahead_its_own_step_is_not_what_a_step_takes(usual, ahead):
    text = compile_sentence([(100.0, 90.0), *[(usual, 0.0)] * 6], 1.0, ahead=True)
    assert ("step without a compile takes" not in text) is ahead
    assert ("the device works for 1.00 ms per step, and the host runs ahead of it." in text) is ahead


def test_steps_without_a_compile_may_hold_less_work_than_others():
    """A step of 3.5 ms held the last ops of a round: the host, which read each loss, was said to run ahead."""
    text = compile_sentence([(1500.0, 1300.0), (3.5, 0.0)], 80.0)
    assert text.endswith("; the device works for 80.0 ms per step.")


@pytest.mark.parametrize(
    ("at_work", "reads", "ahead"),
    [
        (4, 0.0, True),
        (4, READS_IN_STEPS_SHARE - 0.01, True),
        (4, READS_IN_STEPS_SHARE, False),
        # In half of the steps without a compile and in no more.
        (2, 0.0, False),
        (0, 0.0, False),
    ],
)
def test_a_host_runs_ahead_where_the_device_works_on_and_no_read_waits(at_work, reads, ahead):
    """Two of six steps compile, and the device works as `at_work` of the others end."""
    end = np.arange(1, 7) * 10 * PS_PER_MS
    lost = np.array([9, 9, 0, 0, 0, 0]) * PS_PER_MS
    steps = SimpleNamespace(wall_ps=np.full(6, 10 * PS_PER_MS), end=end)
    works = end[2 : 2 + at_work]
    busy = Spans(works - 5 * PS_PER_MS, works + PS_PER_MS)
    host = SimpleNamespace(
        steps=steps,
        breakdown=SimpleNamespace(parts={"compile": lost}),
        devices=[SimpleNamespace(busy=busy)],
    )
    assert _runs_ahead([host], load({}, reads=reads)) is ahead
    assert not _runs_ahead([SimpleNamespace(**{**vars(host), "devices": []})], load({}))


@pytest.mark.parametrize(
    ("share", "told"), [(COMPILES_FROM_SHARE - 0.001, True), (COMPILES_FROM_SHARE, False)]
)
def test_from_which_share_on_a_step_compiles(share, told):
    assert bool(compile_sentence([(100.0, 90.0), (100.0, 100.0 * share)])) is told


@pytest.mark.parametrize(("beside", "told"), [(IDLE_BESIDE_FROM_SHARE * 100 - 1, False), (26, True)])
def test_the_largest_unnamed_part_is_not_all_idle_time(beside, told):
    unknown = load({"unknown": 37, "dispatch": beside})
    text = sentence(bound_of(unknown), unknown, 0.0)
    assert (f"In all the device idles for {37 + beside:.0f} %." in text) is told


@pytest.mark.parametrize(
    ("call", "said", "named"),
    [
        ("wait_device_ops", "a wait for the device in the step", "wait_device_ops"),
        ("item", "a device-to-host read in the step", ".item()"),
        ("__bool__", "a device-to-host read in the step", "a tensor as a condition"),
    ],
)
def test_a_wait_is_not_called_a_read(analyze, call, said, named):
    trace = TraceBuilder()
    for begin in range(0, 4000, 1000):
        python = trace.host().line("python").event("train", begin, 1000, _r=1)
        python.event("SyncLiveTensorsGraph", begin, 300)
        python.event("tpuprof.host_read", begin + 300, 700, call=call, source="train.py:9")
        trace.tpu(0).line("XLA Modules").event("f(1)", begin + 350, 640)
    sentence = analyze(trace).verdict.sentence
    assert f"{said} makes host and device take turns" in sentence
    assert f"It is {named} at train.py:9." in sentence


@pytest.mark.parametrize(
    ("begins", "verdict", "title"),
    [
        (310, "makes host and device take turns", "makes host and device take turns"),
        (900, "the device idles for 60 % of each step", "holds training up"),
    ],
)
def test_verdict_and_finding_agree_on_what_reads_do(analyze, begins, verdict, title):
    """The device works until a read ends, from 310 us on for nearly all of it and from 900 on for little of it."""
    trace = TraceBuilder()
    for begin in range(0, 10_000, 1000):
        python = trace.host().line("python").event("train", begin, 1000, _r=1)
        python.event("SyncLiveTensorsGraph", begin, 300)
        python.event("tpuprof.host_read", begin + 310, 690, call="item", source="train.py:9")
        trace.tpu(0).line("XLA Modules").event("f(1)", begin + begins, 990 - begins)
    report = analyze(trace)
    found = next(each for each in report.findings if each.rule == "device-to-host-sync")
    assert found.status == "failed"
    assert verdict in report.verdict.sentence
    assert title in found.title


def test_copies_to_the_device_have_their_line(analyze):
    trace = TraceBuilder()
    words = {"frames": "train (/u/train.py:14)", "call": "table.to(device)", "source": "/u/train.py:14"}
    for begin in range(0, 40_000, 10_000):
        trace.host().line("python").event("train", begin, 10_000, _r=1)
        trace.host().line("python").event("PjRtComputationClient::TransferToDevice", begin, 8_000)
        trace.tpu(0).line("XLA Modules").event("f(1)", begin + 9_000, 1_000)
        trace.sampled(begin, 8_000, cpu=8_000, stack=1, user_call="table.to(device)", **words)
    sentence = analyze(trace).verdict.sentence
    assert sentence.startswith("Input-bound")
    assert "The host copies to the device at /u/train.py:14 (table.to(device))" in sentence


def test_waits_for_donated_buffers_are_no_tracing(analyze):
    """The runtime waits inside a cut until the program lets go of its inputs: then the host traces, for 200 of 1,000 us."""
    trace = TraceBuilder()
    for begin in range(0, 6000, 1000):
        python = trace.host().line("python").event("train", begin, 1000, _r=1)
        python.event("SyncTensorsGraph", begin, 1000)
        python.event("Wait for donation holds", begin + 200, 780)
        trace.tpu(0).line("XLA Modules").event("f(1)", begin + 200, 790)
    report = analyze(trace)
    assert report.verdict.bound == "device"
    assert "waits 780 µs for the device inside the runtime" in report.verdict.sentence
    tracing = next(each for each in report.findings if each.rule == "tracing-bound")
    assert tracing.status == "passed"
    assert "runtime" in tracing.title


def test_a_step_whose_read_waits_for_nothing_is_not_bound_by_it(analyze):
    """The runtime waits in the cut of each step, and the value is ready then; of the last step the read waits."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(6):
        begin, waits = 20_000 * number, number == 5
        python.event("train", begin, 20_000, _r=1, step_num=number)
        python.event("SyncTensorsGraph", begin, 10_000 if waits else 19_600)
        if not waits:
            python.event("Wait for donation holds", begin + 10_000, 9_500)
        read = begin + (10_000 if waits else 19_700)
        python.event("tpuprof.host_read", read, 9_900 if waits else 200, call="item", source="train.py:9")
        python.event("PjRtComputationClient::TransferFromDevice", read + 50, 9_800 if waits else 100)
        trace.tpu(0).line("XLA Modules").event("f(1)", begin + 10_000, 9_600)
    rows = analyze(trace).steps.per_step
    assert [row.bound == "sync" for row in rows] == [False] * 5 + [True]


@pytest.mark.parametrize(
    ("blocked", "word"), [(None, "sync"), (30.0, "sync"), (11.0, "sync"), (9.0, "tracing")]
)
def test_turns_cost_no_more_than_reads_block(blocked, word):
    times = StepTimes(100.0, {"compute": 60.0, "tracing": 40.0}, 60.0, 40.0, 1.0, blocked=blocked)
    found = bound_of(times)
    assert found.word == word
    assert word != "sync" or found.ms == min(40.0, blocked or 40.0)


@pytest.mark.parametrize(
    ("host_work", "ready", "word"), [(47, 0, "device"), (47, 2, "undecided"), (19, 2, "device")]
)
def test_reads_of_values_that_are_ready_are_the_hosts_work_in_its_own_waits_too(host_work, ready, word):
    """Device 60 ms, then host 40 ms, by waits in the runtime: a read that waits for nothing is work there as well."""
    times = replace(load({"tracing": 40}, host_work=host_work, waited=50), ready=ready)
    assert bound_of(times).word == word
    if word == "undecided":
        assert "the host works for 49.0 ms" in sentence(bound_of(times), times, 0.0)


@pytest.mark.parametrize(("ready", "word"), [(0.0, "sync"), (15.0, "sync"), (21.0, "dispatch")])
def test_reads_of_values_that_are_ready_are_no_turns(ready, word):
    """200 small programs per step, each of whose results is read once it is there: the reads alone cost nothing."""
    times = StepTimes(100.0, {"compute": 40.0, "dispatch": 60.0}, 40.0, 30.0, 1.0, blocked=30.0, ready=ready)
    found = bound_of(times)
    assert found.word == word
    assert word != "sync" or found.ms == 30.0 - ready


@pytest.mark.parametrize(
    ("general", "special", "word"),
    [(30, 30 * AS_LARGE_FROM, "fallback"), (30, 30 * AS_LARGE_FROM - 0.1, "tracing"), (11, 9, "tracing")],
)
def test_of_two_causes_about_as_large_the_one_that_names_more_decides(general, special, word):
    assert bound_of(load({"tracing": general, "aten_fallback": special})).word == word
    assert bound_of(load({"input_wait": 40, "aten_fallback": 39})).word == "input"


def falls_back(**given):
    """A device that computes for 36 of 100 ms, and waits for an op on the host and for the next graph."""
    parts = {"compute": 36.0, "tracing": 34.0, "aten_fallback": 17.0, "dispatch": 13.0}
    return replace(StepTimes(100.0, parts, 36.0, 80.0, 0.0, waited=20.0), **{"fallbacks_share": 1.0, **given})


@pytest.mark.parametrize(
    ("given", "word", "ms"),
    [
        ({}, "fallback", 37.0),
        # The op comes seldom: the turns of the other steps are not its own.
        ({"fallbacks_share": READS_IN_STEPS_SHARE - 0.01}, "tracing", 34.0),
        # The thread waits for the device too little: without the op it goes on not much earlier.
        ({"host_work": 84.0, "waited": 16.0}, "tracing", 34.0),
        # The device works for longer than the host's other work: it is waited for without the op as well.
        ({"busy": 63.0}, "fallback", 37.0),
        ({"busy": 64.0}, "undecided", 34.0),
        # Without the op the host still needs as long.
        ({"host_work": 95.0, "waited": 20.0}, "tracing", 34.0),
        # A read stays, at which host and device take turns.
        ({"reads_share": 1.0, "blocked": 5.0}, "tracing", 34.0),
    ],
)
def test_ops_that_run_on_the_host_count_with_the_turns_that_they_force(given, word, ms):
    times = falls_back(**given)
    bound = bound_of(times)
    assert (bound.word, bound.ms) == (word, ms)
    text = sentence(bound, times, 0.0)
    assert ("makes host and device take turns and costs up to 37 % of each step" in text) == (
        word == "fallback"
    )


def test_a_small_op_on_the_host_is_not_what_holds_a_slow_host_back():
    times = falls_back(
        parts={"compute": 20.0, "tracing": 78.0, "aten_fallback": 2.0}, busy=20.0, host_work=95.0, waited=5.0
    )
    assert bound_of(times).word == "tracing"


@pytest.mark.parametrize(
    ("part", "ms", "word"),
    [
        ("host:sleep", 30 * AS_LARGE_FROM, "host"),
        ("host:lock", 30 * AS_LARGE_FROM, "host"),
        ("host:lock", 30 * AS_LARGE_FROM - 0.1, "tracing"),
        # Code without work for the device may be a part of what traces.
        ("host:python", 29, "tracing"),
    ],
)
def test_a_wait_of_the_host_about_as_large_as_its_tracing_decides(part, ms, word):
    bound = bound_of(load({"tracing": 30, part: ms}, host_work=100))
    assert (bound.word, bound.ms) == (word, ms if word == "host" else 30)


@pytest.mark.parametrize(
    ("parts", "word"),
    [
        ({"host:python": 41, "collective_exposed": 37}, "host"),
        ({"tracing": 41, "collective_exposed": 37}, "collective"),
        ({"host:python": 41, "input_wait": 37}, "input"),
    ],
)
def test_host_work_with_a_line_gives_way_to_idle_time_of_a_named_cause_alone(parts, word):
    times = load(parts, host_work=100)
    assert bound_of(times).word == word
    assert "Another cause is about as large" in sentence(bound_of(times), times, 0.0)


def test_a_cause_about_as_large_is_named_too():
    both = load({"tracing": 30, "aten_fallback": 28})
    text = sentence(bound_of(both), both, 0.0)
    assert text.endswith(
        "Another cause is about as large: device idle while the host traces, 30 % (30.0 ms)."
    )
    one = load({"tracing": 30, "aten_fallback": 20})
    assert "about as large" not in sentence(bound_of(one), one, 0.0)


def test_where_the_hosts_other_work_is_another_cause_its_line_is_named():
    line = ", most of it at train.py:45 (rng.choice(x))"
    both = load({"tracing": 41, "host:python": 37}, host_work=100)
    text = sentence(bound_of(both), both, 0.0, beside=line)
    assert text.endswith(f"while the host does other work, 37 % (37.0 ms){line}.")
    other = load({"tracing": 41, "dispatch": 37, "host:python": 5}, host_work=100)
    assert line not in sentence(bound_of(other), other, 0.0, beside=line)


@pytest.mark.parametrize(("again", "least"), [(19.9, ", 19.9 ms of it at least."), (85.0, "")])
def test_what_is_computed_again_is_said_as_the_least_that_reads_cost_where_that_is_clearly_less(again, least):
    times = replace(load({"tracing": 20.0}, host_work=25.0, reads=1.0), blocked=90.0, again=again)
    found = replace(bound_of(times), again=True, by_turns=True)
    text = sentence(found, times, 0.0)
    assert "which costs up to" in text
    assert (" of it at least" in text) == bool(least) and least in text


@pytest.mark.parametrize(
    ("more", "says"), [(LARGER_FROM - 0.01, "is about as large"), (LARGER_FROM + 0.01, "takes more time")]
)
def test_a_cause_that_takes_more_than_the_one_named_is_not_called_as_large(more, says):
    """Of 39 % beside 23 %, "about as large" was said."""
    times = cut_by_reads(20.0, tracing=20.0 + 30.0 * more)  # the reads cost 30 ms
    assert bound_of(times).word == "sync"
    assert f"Another cause {says}: device idle while the host traces" in sentence(bound_of(times), times, 0.0)


def test_of_several_callbacks_the_longest_is_named(analyze):
    trace = TraceBuilder()
    call = '%{0} = f32[] custom-call(f32[] %p), custom_call_target="xla_ffi_python_cpu_callback"'
    for begin in range(0, 4000, 1000):
        trace.host().line("python").event("train", begin, 1000, _r=1)
        trace.tpu(0).line("XLA Modules").event("f(1)", begin, 1000)
        ops = trace.tpu(0).line("XLA Ops")
        ops.event(call.format("debug_callback.45"), begin, 20, display="debug_callback.45")
        ops.event(call.format("pure_callback.20"), begin + 50, 700, display="pure_callback.20")
    sentence = analyze(trace).verdict.sentence
    assert sentence.startswith("Callback-bound")
    assert "It is pure_callback.20." in sentence


def test_garbage_collections_are_no_annotation_of_the_users():
    most = load({"user:gc": 40})
    text = sentence(bound_of(most), most, 0.0)
    assert text.startswith("Held back by garbage collections: the device idles for 40 % of each step")
    assert "annotation" not in text


def test_a_cost_of_few_steps_is_not_one_of_each_step():
    most = load({"host:io": 40})
    text = sentence(bound_of(most), most, 0.0, few="nearly all of it in 2 of 8 steps")
    assert text.startswith(
        "Host-bound: the device idles for 40 % of the steps' time (40.0 ms of 100 ms on average, nearly all of it in 2 of "
        "8 steps) while"
    )


def test_checkpoints_are_no_annotation_of_the_users():
    most = load({"user:checkpoint": 40})
    text = sentence(bound_of(most), most, 0.0)
    assert text.startswith("Held back by checkpoints: the device idles for 40 % of each step")
    assert text.endswith("while the host saves one.")


@pytest.mark.parametrize(
    ("again", "cost", "said"),
    [
        (
            50.0,
            50.0,
            "run graphs of their own, and the step computes the same again, which costs about 50 %",
        ),
        (
            20.1,
            20.1,
            "run graphs of their own, and the step computes the same again, which costs about 20 %",
        ),
        (19.9, 39.9, "take turns, and the step computes the same again, which costs up to 40 %"),
        (10.0, 30.0, "take turns, and the step computes the same again, which costs up to 30 %"),
        (9.9, 20.0, "take turns, which costs up to 20 %"),
        (0.0, 20.0, "take turns, which costs up to 20 %"),
    ],
)
def test_turns_and_work_done_again_are_both_in_what_reads_cost(again, cost, said):
    """Each parameter's norm is read: the device works all the time, most of it on what the step does anyway.

    An autograd function that computed with NumPy was said to cost its turns alone, up to 15 % of a step: 34 % were
    measured, as the device did 14 % of the step again.
    """
    times = replace(load({"tracing": 20.0}, host_work=25.0, reads=1.0), blocked=90.0, again=again)
    found = bound_of(times)
    assert (found.word, found.ms) == ("sync", pytest.approx(cost))
    assert said in sentence(found, times, 0.0)


@pytest.mark.parametrize(
    ("blocked", "on_cpu", "cost"),
    [
        (40.0, False, 38.0),
        (30.0, False, 30.0),
        # The host is also slower right after a read, where both share CPUs.
        (22.0, True, 22.0 * BESIDE_READS),
        (30.0, True, 38.0),
    ],
)
def test_turns_and_work_done_again_cost_no_more_than_reads_gain(blocked, on_cpu, cost):
    """What a read blocks holds the run of its graph: "up to 119 of 167 ms" was said of reads that blocked 65.

    The price of the same reads was 54.5 to 93.6 ms.
    """
    times = replace(load({"tracing": 20.0}, host_work=25.0, reads=1.0), again=18.0)
    found = bound_of(replace(times, blocked=blocked, on_cpu=on_cpu))
    assert (found.again, found.by_turns, found.ms) == (True, True, pytest.approx(cost))


def test_work_done_again_does_not_stand_for_turns_too_short_to_name():
    """Tracing costs more than either, and the host alone is as slow: reads are not what holds the step back."""
    found = bound_of(replace(load({"tracing": 40.0}, host_work=95.0, reads=1.0), blocked=90.0, again=12.0))
    assert (found.word, found.again) == ("tracing", False)


@pytest.mark.parametrize(
    ("us", "waited"), [(WAIT_FROM_PS / US - 1, 0.0), (WAIT_FROM_PS / US, WAIT_FROM_PS)], ids=["short", "long"]
)
def test_a_long_hand_over_waits_for_the_device(read, us, waited):
    """Nobody asked for the wait: it is the runtime's, and no tracing."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for step in range(8):
        begin = step * 1000
        python.event("train", begin, 1000, _r=1)
        python.event("SyncLiveTensorsGraph", begin + 100, 800)
        python.event("SyncTensorsGraph", begin + 110, 780)
        python.event("SyncTensorsGraphInternal", begin + 120, 765)
        python.event("ScheduleSyncTensorsGraph", begin + 200, us)
        trace.tpu(0).line("XLA Modules").event("step(1)", begin + 200, 600)
    assert read(trace).breakdown.waited.tolist() == [waited] * 8


def cut_by_reads(for_reads, tracing=40.0, again=5.0, **given):
    """A host that traces for most of a step of 100 ms, so long of it graphs that reads run by themselves."""
    parts = {"compute": 20.0, "tracing": tracing, "device_to_host_sync": 5.0, "host_other": 75.0 - tracing}
    times = StepTimes(100.0, parts, 20.0, 70.0, 1.0, for_reads=for_reads, again=again)
    return replace(times, **given)


@pytest.mark.parametrize(
    ("times", "word", "ms"),
    [
        # Graphs of reads, the waits for them and what is computed again, beside the rest of tracing.
        (cut_by_reads(30.0, tracing=60.0), "sync", 40.0),
        (
            cut_by_reads(10.0, tracing=60.0, again=OF_TRACING_FOR_READS * 50 - 15),
            "sync",
            OF_TRACING_FOR_READS * 50,
        ),
        (cut_by_reads(10.0, tracing=60.0, again=OF_TRACING_FOR_READS * 50 - 15.1), "tracing", 60.0),
        (cut_by_reads(30.0, tracing=60.0, reads_share=READS_IN_STEPS_SHARE - 0.01), "tracing", 60.0),
        (cut_by_reads(0.0, tracing=60.0), "tracing", 60.0),
    ],
)
def test_reads_that_run_most_of_what_is_traced_are_named(times, word, ms):
    bound = bound_of(times)
    assert bound.word == word
    assert bound.ms == pytest.approx(ms)
    assert bound.by_cuts is (word == "sync")
    text = sentence(bound, times, 0.0)
    assert ("The host makes each graph and waits for it" in text) is (word == "sync")


@pytest.mark.parametrize(
    ("for_reads", "reads", "cuts"),
    [(10.0, 1.0, True), (9.9, 1.0, False), (10.0, READS_IN_STEPS_SHARE - 0.01, False)],
)
def test_reads_that_wait_longest_are_no_turns_of_a_device_that_works_little(for_reads, reads, cuts):
    """128 values are read per step: what the device idles in reads was "takes turns, costs up to 47 %", and is no ceiling."""
    times = replace(load({"device_to_host_sync": 47.0, "tracing": 23.0}, host_work=43.0), reads_share=reads)
    times = replace(times, for_reads=for_reads, blocked=68.0, busy=14.0)
    why = Decisions()
    bound = bound_of(times, why)
    assert (bound.word, bound.by_cuts) == ("sync", cuts)
    assert bound.ms == pytest.approx(47.0 + cuts * for_reads)
    text = sentence(bound, times, 0.0)
    assert "turns" not in text
    assert "up to" not in text
    assert (
        "the device idles for 47 % of each step (47.0 ms of 100 ms) while the host reads a value" in text
    ) is not cuts
    assert not any("do not make host and device take turns" in each.follows for each in why.made)


@pytest.mark.parametrize(
    ("parts", "beside", "follows"),
    [
        (
            {"tracing": 40.0, "input_wait": 31.0},
            "0.8 times tracing",
            "tracing is clearly larger: the verdict looks at tracing first",
        ),
        (
            {"tracing": 11.0, "input_wait": 9.9},
            "0.1 of the step",
            "input is too small to name: the verdict looks at tracing first",
        ),
    ],
)
def test_a_decision_says_which_of_two_limits_was_missed(parts, beside, follows):
    why = Decisions()
    assert bound_of(load(parts, host_work=95.0), why).word == "tracing"
    made = next(each for each in why.made if "names more" in each.question)
    assert made.question.endswith(f"compared with {beside}")
    assert made.follows == follows


def test_what_is_traced_beside_reads_is_another_cause_where_it_is_as_large():
    times = cut_by_reads(30.0, tracing=64.0)
    assert "Another cause is about as large: device idle while the host traces" in sentence(
        bound_of(times), times, 0.0
    )
    times = cut_by_reads(50.0, tracing=60.0)
    assert "Another cause" not in sentence(bound_of(times), times, 0.0)


@pytest.mark.parametrize("cut", [True, False])
def test_what_the_host_makes_for_reads_is_counted(analyze, cut):
    """Ten reads per step run graphs of their own; nothing else is traced for as long.

    Where nothing else cuts the graph, those of reads are the step's own.
    """
    trace = TraceBuilder()
    python = trace.host().line("python")
    for step in range(8):
        begin = step * 1000
        python.event("train", begin, 1000, _r=1)
        for number in range(10):
            at = begin + number * 80
            python.event("tpuprof.host_read", at, 70, call="item", source="train.py:5")
            python.event("SyncTensorsGraph", at + 2, 50)
            python.event("ScheduleSyncTensorsGraph", at + 40, 5)
            python.event("PjRtComputationClient::TransferFromDevice", at + 55, 14)
            trace.tpu(0).line("XLA Modules").event("read(1)", at + 56, 10)
        if cut:
            python.event("tpuprof.graph_cut", begin + 848, 104, call="sync", source="train.py:9")
        python.event("SyncTensorsGraph", begin + 850, 100)
        trace.tpu(0).line("XLA Modules").event("step(2)", begin + 960, 30)
    report = analyze(trace)
    assert report.verdict.bound == ("sync" if cut else "tracing")
    if not cut:
        return
    assert "reads of values in mid-step run graphs of their own" in report.verdict.sentence
    assert "It is .item() at train.py:5, 10 times per step." in report.verdict.sentence


@pytest.mark.parametrize(
    ("reads", "steps", "said"),
    [(10, 10, ""), (14, 10, ""), (15, 10, ", about 2 times per step"), (6096, 254, ", 24 times per step")],
)
def testhow_often_a_line_reads_is_said_of_several_values(reads, steps, said):
    run = SimpleNamespace(hosts=[SimpleNamespace(steps=range(steps))])
    assert how_often(run, HostReadRow("item", "train.py:5", reads, 1.0)) == said


@pytest.mark.parametrize(
    ("innermost", "said"),
    [
        ("__init__ (/v/site-packages/torch/distributions/distribution.py:76)", " (in torch/distributions/distribution.py:76)"),
        ("forward (train.py:5)", ""),
    ],
)  # fmt: skip
def test_a_read_that_a_library_makes_is_named_with_its_place_there(monkeypatch, innermost, said):
    """A program without a condition of its own was told of "a tensor as a condition", and of nothing that makes it."""
    read = HostReadRow("__bool__", "train.py:5", 10, 1.0)
    monkeypatch.setattr("tpuprof.analysis.sections.read_words.host_read_rows", lambda _: [read])
    run = SimpleNamespace(hosts=[SimpleNamespace(steps=range(10), framework="torch_xla")])
    frames = ["forward (train.py:5)", innermost]
    stacks = [HostStackRow("device_to_host_sync", frames, "f()", "train.py:5", "f()", 0.5, 0.5)]
    assert (
        named_read(run, stacks, Bound("sync", 0.5, 1.0))
        == f" It is a tensor as a condition at train.py:5{said}."
    )


@pytest.mark.parametrize(("again_for_ops", "word"), [(16.1, "fallback"), (15.9, "sync")])
def test_of_reads_and_ops_on_the_host_the_costlier_is_the_verdict(again_for_ops, word):
    """Metrics that were read cost 25 ms, and an op that ran on the host 50: "sync-bound" was said above its finding."""
    both = replace(
        load({"tracing": 10.0, "aten_fallback": 4.0}, host_work=20.0, reads=1.0),
        again=20.0,
        again_for_ops=again_for_ops,
        fallbacks_share=1.0,
        blocked=30.0,
    )
    assert bound_of(replace(both, again=0.0, reads_share=0.0)).word == "fallback"
    assert bound_of(replace(both, again_for_ops=0.0)).word == "sync"
    assert bound_of(both).word == word
