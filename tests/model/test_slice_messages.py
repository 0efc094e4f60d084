"""Messages between slices: the runtime's events as XProf's own tests write them, on built traces of two hosts."""

import pytest

from tests.model.test_host_exchanges import waiting
from tpuprof.analysis.analyze import analyze_run
from tpuprof.model.host.slice_messages import RECEIVED
from tpuprof.pod.analyze import analyze_pod
from tpuprof.render.facts import fact_lines


def message(
    trace, at, *, label="all-reduce.273_312", source=1, target=0, size=32_768, took=50, name=RECEIVED
):
    """A message that arrived `at` us from the start; `took` us."""
    stats = {
        "dcn_label": label,
        "dcn_source_slice_id": source,
        "dcn_source_per_slice_device_id": 3,
        "dcn_destination_slice_id": target,
        "dcn_destination_per_slice_device_id": 3,
        "dcn_chunk": 0,
        "dcn_loop_index": 24,
        "duration_us": took,
        "payload_size_bytes": size,
    }
    stats = {key: value for key, value in stats.items() if value is not None}
    trace.host().line("MegaScale").event(name, at, 0, **stats)


def rows_of(report):
    return [
        (row.collective, row.from_slice, row.to_slice, row.messages_per_step, row.mean_ms, row.untimed)
        for row in report.slice_messages
    ]


def test_messages_are_summed_by_collective_and_pair_of_slices(tmp_path):
    trace = waiting()
    for step in range(3):
        for at, took in ((500, 40), (700, 60)):
            message(trace, 1000 * step + at, took=took)
        message(trace, 1000 * step + 800, source=2, took=200)
    report = analyze_run(trace.write(tmp_path / "x.xplane.pb"))
    assert rows_of(report) == [
        ("all-reduce.273_312", 2, 0, 1.0, 0.2, 0),
        ("all-reduce.273_312", 1, 0, 2.0, 0.05, 0),
    ]
    slow, usual = report.slice_messages
    assert usual.bytes_per_step == 2 * 32_768
    assert usual.longest_ms == 0.06
    assert usual.gb_per_s == pytest.approx(32_768 / 50e-6 / 1e9)
    assert slow.gb_per_s == pytest.approx(32_768 / 200e-6 / 1e9)
    said = [line for subject, line in fact_lines(report) if subject == "Between slices"]
    assert said[0].startswith("slice 2 to 0: 1 message with ")
    assert said[0].endswith("each on its way for 200 µs, the slowest for 200 µs")


def test_clocks_that_disagree_give_no_time(tmp_path):
    """A message that arrived when it was sent, or before: XProf leaves those out, and their bytes did go."""
    trace = waiting()
    message(trace, 500, took=0)
    message(trace, 600, took=-7)
    report = analyze_run(trace.write(tmp_path / "x.xplane.pb"))
    [row] = report.slice_messages
    assert (row.untimed, row.mean_ms, row.longest_ms, row.gb_per_s) == (2, None, None, None)
    assert row.bytes_per_step == pytest.approx(2 * 32_768 / 3)
    assert "the clocks of the hosts disagree" in dict(fact_lines(report))["Between slices"]


@pytest.mark.parametrize(
    "other",
    [
        {"at": 9_000},
        {"at": 500, "label": None},
        {"at": 500, "source": None},
        {"at": 500, "size": None},
        {"at": 500, "name": "MegaScale: Communication Transport Send"},
    ],
    ids=["after the steps", "without its collective", "without its slice", "without its size", "sent"],
)
def test_what_is_no_message_of_a_step(tmp_path, other):
    trace = waiting()
    message(trace, **other)
    assert analyze_run(trace.write(tmp_path / "x.xplane.pb")).slice_messages == []


def test_a_pod_sums_them_as_one_process_does(tmp_path):
    for host in range(3):
        trace = waiting()
        for step in range(3):
            message(trace, 1000 * step + 600, source=host + 1, took=50 + host)
            message(trace, 1000 * step + 700, source=9, took=30 + host)
        trace.write(tmp_path / f"h{host}.xplane.pb")
    whole = analyze_run(tmp_path)
    assert len(whole.slice_messages) == 4
    assert (whole.slice_messages[0].from_slice, whole.slice_messages[0].messages_per_step) == (9, 3.0)
    assert analyze_pod(tmp_path).slice_messages == whole.slice_messages
