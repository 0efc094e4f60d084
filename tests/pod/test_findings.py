"""Which findings hold on which hosts, at which line and for what price: as each host's own report says them."""

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import TraceBuilder
from tests.pod import pods
from tpuprof.analysis.analyze import analyze_run
from tpuprof.model.run import Run
from tpuprof.pod import host_work
from tpuprof.pod.analyze import analyze_pod
from tpuprof.pod.digest import FAILED, digest_of
from tpuprof.pod.findings import NAMED, merged_findings
from tpuprof.pod.hosts import hosts_of, summarise_host
from tpuprof.pod.late_waits import NOTE
from tpuprof.pod.merge import Asked, merge
from tpuprof.pod.pack import from_bytes
from tpuprof.pod.reduced import host_run
from tpuprof.render.finding_hosts import host_sentences
from tpuprof.report.as_json import to_json
from tpuprof.report.load import report_from
from tpuprof.report.schema import Finding, Savings
from tpuprof.rules.pricing import COUNTERFACTUAL

TRAIN = "train (/home/u/train.py:7)"
# By host: how long a step of 40 ms sleeps (ms), and where.
SLEEPS = {"w0": 0, "w1": 0, "w17": 20, "w18": 0, "w2": 0, "w203": 12, "w3": 0, "w30": 25}
LINES = {"w17": "data.py:12", "w203": "data.py:12", "w30": "log.py:5"}
BLOCKED = "host-blocked"
COMMUNICATION = "exposed-collectives"


def trace(name, wall=40_000, steps=4):
    """Steps that trace for 10 ms and run on the device for the rest; some hosts sleep in each, at a line of their own."""
    built = TraceBuilder()
    python = built.host().line("python")
    sleeps = SLEEPS[name] * 1_000
    for step in range(steps):
        begin = step * wall
        python.event("train_step", begin, wall, _r=1, step_num=step)
        python.event("StepMarker", begin + wall - 10, 10)
        built.tpu(0).line("XLA Modules").event("f(1)", begin + 10_000 + sleeps, wall - 10_000 - sleeps)
        built.tpu(0).line("XLA Ops").event("fusion.1", begin + 10_000 + sleeps, wall - 10_000 - sleeps)
        traced = {"frames": f"{TRAIN};forward (/home/u/model_{name}.py:3)", "call": "self.layer(x)"}
        built.sampled(begin, 10_000, ops=500, stack=2 * step + 1, source="/home/u/model.py:3", **traced)
        if sleeps:
            at = f"/home/u/{LINES[name]}"
            slept = {
                "frames": f"{TRAIN};batch ({at})",
                "call": "time.sleep(0.02)",
                "user_call": "time.sleep(0.02)",
            }
            built.sampled(begin + 10_000, sleeps, cpu=0, asleep=True, stack=2 * step + 2, source=at, **slept)
    return built


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("pod") / "plugins" / "profile" / "x"
    found.mkdir(parents=True)
    for name in SLEEPS:
        trace(name).write(found / f"{name}.xplane.pb")
    return found


@pytest.fixture(scope="module")
def packed(folder):
    return {job.name: summarise_host(job) for job in hosts_of(folder).jobs}


@pytest.fixture(scope="module")
def alone(folder):
    """What an analysis of each host's file by itself says."""
    return {name: analyze_run(folder / f"{name}.xplane.pb") for name in sorted(SLEEPS)}


def merged(packed, names):
    return merge([from_bytes(packed[name]) for name in names], Asked(len(names), {}, {}, []))


def finding(report, rule=BLOCKED):
    return next(each for each in report.findings if each.rule == rule)


def test_a_finding_says_on_which_hosts_and_lines_it_is(packed):
    found = finding(merged(packed, list(packed)))
    told = found.on_hosts
    assert (told.hosts, told.of, told.names) == (3, 8, ["w17", "w203", "w30"])
    assert [(row.source, row.hosts, row.names) for row in told.lines] == [
        ("/home/u/data.py:12", 2, ["w17", "w203"]),
        ("/home/u/log.py:5", 1, ["w30"]),
    ]
    assert found.title.endswith("(on 3 of 8 hosts)")
    assert told.others == []


def test_words_name_hosts_lines_and_whose_price_it_is(packed):
    found = finding(merged(packed, list(packed)))
    assert host_sentences(found) == [
        "Only on w17, w203, w30 of 8 hosts: /home/u/data.py:12 on w17, w203; /home/u/log.py:5 on w30.",
        "Price and evidence are those of w30; the price is least on w203 (12.0 ms per step).",
    ]
    tracing = finding(merged(packed, list(packed)), "tracing-bound")
    assert host_sentences(tracing) == [
        "On all 8 hosts, at /home/u/model.py:3.",
        f"Price and evidence are those of {tracing.on_hosts.shown}; fixing it saves as much on the other hosts.",
    ]
    assert host_sentences(replace(found, on_hosts=None)) == []
    many = replace(
        found.on_hosts,
        hosts=1_019,
        of=1_024,
        names=["w0"],
        others=["w7", "w9", "x1", "x2", "x3"],
        lines=[],
        undecided=2,
    )
    assert host_sentences(replace(found, on_hosts=many))[0] == (
        "On 1,019 of 1,024 hosts, not on w7, w9, x1, x2 and 1 more (2 could not tell)."
    )


def test_of_most_hosts_those_without_it_are_named(packed):
    names = ["w0", "w17", "w203", "w30"]
    assert finding(merged(packed, names)).on_hosts.others == ["w0"]
    everywhere = finding(merged(packed, names[1:]))
    assert everywhere.on_hosts.others == []
    assert everywhere.title.endswith("(on all 3 hosts)")


def test_each_rule_is_told_as_the_hosts_own_reports_tell_it(packed, alone):
    report = merged(packed, list(packed))
    for found in report.findings:
        own = {name: finding(each, found.rule) for name, each in alone.items()}
        failed = {name: each for name, each in own.items() if each.status == "failed"}
        if found.on_hosts is None:
            # The rule that compares hosts is asked of all of them together.
            assert not failed or found.rule == "straggler-host"
            continue
        assert found.on_hosts.names == sorted(failed)
        assert found.on_hosts.undecided == sum(
            each.status in ("unavailable", "error") for each in own.values()
        )
        shown = failed[found.on_hosts.shown]
        assert (found.savings, found.evidence, found.why) == (shown.savings, shown.evidence, shown.why)
        highs = sorted(each.savings.high for each in failed.values() if each.savings)
        for row in found.on_hosts.prices:
            assert (row.low, row.high) == (failed[row.host].savings.low, failed[row.host].savings.high)
        if highs:
            prices = [row.high for row in found.on_hosts.prices]
            assert prices == sorted(
                {
                    0: highs[0],
                    (len(highs) - 1) // 2: highs[(len(highs) - 1) // 2],
                    len(highs) - 1: highs[-1],
                }.values()
            )


def test_a_finding_of_the_shown_host_is_told_as_there_and_one_of_others_as_on_the_worst(packed):
    report = merged(packed, list(packed))
    assert report.pod.shown not in LINES
    assert finding(report).on_hosts.shown == "w30"
    sleeping = merged(packed, ["w0", "w17", "w203", "w30"])
    assert sleeping.pod.shown in LINES
    assert finding(sleeping).on_hosts.shown == sleeping.pod.shown


def test_sections_of_the_threads_are_those_of_all_files(folder, packed):
    whole, parts = analyze_run(folder).to_dict(), merged(packed, list(packed)).to_dict()
    assert len({row["source"] for row in whole["host_stacks"]}) > 2
    for name in ("host_stacks", "tracing", "input", "threads", "annotations", "verdict"):
        assert parts[name] == whole[name], name


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), cut=st.integers(0, 8))
def test_neither_order_nor_parts_change_a_finding(packed, seed, cut):
    names = sorted(packed)
    random.Random(seed).shuffle(names)
    parts = [{name: packed[name] for name in names[:cut]}, {name: packed[name] for name in names[cut:]}]
    whole = parts[1] | parts[0]
    assert to_json(merged(whole, list(whole))) == to_json(merged(packed, sorted(packed)))


def test_what_is_said_of_hosts_reads_back(packed):
    report = merged(packed, list(packed))
    assert report_from(json.loads(to_json(report))) == report


def test_rows_beyond_those_kept_are_told(folder, monkeypatch):
    monkeypatch.setattr(host_work, "ROWS_KEPT", 1)
    packed = {job.name: summarise_host(job) for job in hosts_of(folder).jobs}
    notes = merged(packed, list(packed)).pod.notes
    assert any("sampled stacks than a summary keeps" in each for each in notes)
    monkeypatch.setattr(host_work, "ROWS_KEPT", 2)
    kept = {job.name: summarise_host(job) for job in hosts_of(folder).jobs}
    assert not any("sampled stacks" in each for each in merged(kept, list(kept)).pod.notes)


def test_names_are_listed_up_to_a_number(folder, tmp_path):
    place = tmp_path / "plugins" / "profile" / "x"
    place.mkdir(parents=True)
    for row in range(NAMED + 1):
        (place / f"n{row:03}.xplane.pb").symlink_to(folder / "w17.xplane.pb")
    told = finding(analyze_pod(tmp_path)).on_hosts
    assert (told.hosts, len(told.names)) == (NAMED + 1, NAMED)


def late_pod(folder, lag, hosts=6):
    """Hosts of one chip that end each step in an all-reduce of 100 µs and more; h3 comes last by so much (µs)."""
    found = folder / "plugins" / "profile" / "x"
    for row in range(hosts):
        late = (lag, lag) if row == 3 else (0, lag)
        pods.trace(late, chips=1, reduce=300).write(found / f"h{row}.xplane.pb")
    return found


@pytest.mark.parametrize("lag", [0, 100, 2000])
def test_waits_for_a_late_host_are_no_communication_of_a_pod(tmp_path, lag):
    """Each host by itself counts them: 31 % of each step on 39 of 40 hosts, where 8 % was communication."""
    folder = late_pod(tmp_path, lag)
    whole, parts = finding(analyze_run(folder), COMMUNICATION), finding(analyze_pod(folder), COMMUNICATION)
    assert parts.status == whole.status == ("passed" if lag == 2000 else "failed")
    assert parts.reason == whole.reason
    if lag == 2000:
        return
    assert parts.title.partition(" (")[0] == whole.title.partition(" (")[0]
    assert parts.title.endswith("hosts)")
    assert parts.severity == pytest.approx(whole.severity, rel=0.05)
    assert parts.savings.high == pytest.approx(whole.savings.high, rel=0.05)
    assert parts.savings.step_low_ms + parts.savings.high == pytest.approx(1.2 + lag / 1000)
    assert (parts.savings.note == NOTE) is bool(lag)
    assert all(each.high <= parts.savings.high * 1.05 for each in parts.on_hosts.prices)


@pytest.mark.parametrize("on", [1, 2])
def test_a_cause_on_all_hosts_ranks_before_its_symptom_as_on_one_host(packed, on):
    """A broad rule stands behind the specific one that it shares its saving with, unless that is of few hosts."""
    summaries = [from_bytes(packed[name]) for name in ("w0", "w1")]
    digests = [digest_of(each) for each in summaries]
    run = Run({}, [host_run(each) for each in summaries], {})

    def found(rule, severity, other):
        savings = Savings(1.0, 9.0, COUNTERFACTUAL)
        return Finding(rule, "tracing", FAILED, rule, "", severity, savings, shares_saving_with=[other])

    symptom = found("tracing-bound", 0.36, "optimizer-loop")
    cause = found("optimizer-loop", 0.10, "tracing-bound")
    of_hosts = [replace(each, failed=[symptom, cause][: 1 + (row < on)]) for row, each in enumerate(digests)]
    report = replace(merged(packed, ["w0", "w1"]), findings=[symptom, cause])
    ranked = [each.rule for each in merged_findings(report, run, of_hosts, 0) if each.status == FAILED]
    assert ranked == (["optimizer-loop", "tracing-bound"] if on == 2 else ["tracing-bound", "optimizer-loop"])
