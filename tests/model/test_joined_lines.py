"""Several lines of one name on a device, and several planes of one device."""

import pytest

from tests.builders import TraceBuilder, op
from tpuprof.decode import xplane
from tpuprof.decode.joined_lines import one_of_each

COUNT, LENGTH = 8, 1000


def device(line_of, *, plane=None, stamp=lambda _: 1_000, counts=False):
    """Steps of one device; `line_of` is the number of the line that each step's events are on."""
    trace = TraceBuilder()
    plane = plane or trace.tpu(0)
    for step in range(COUNT):
        piece = line_of(step)
        for name in ("XLA Modules", "XLA Ops"):
            line = plane.line(f"{name}#{piece}", stamp(piece))
            begin = step * LENGTH - (stamp(piece) - 1_000) / 1_000
            if name == "XLA Modules":
                line.event("f(1)", begin, 900, run_id="r" * (step + 1))
            else:
                line.event(**op("fusion.1"), start=begin, duration=900, **({"flops": 10} if counts else {}))
    for line in plane.message.lines:
        line.name = line.name.partition(b"#")[0]
    return trace


@pytest.mark.parametrize(
    "stamp", [lambda _: 1_000, lambda piece: 1_000 + 500_000 * piece], ids=["one", "own"]
)
@pytest.mark.parametrize("counts", [False, True], ids=["no costs", "costs of events"])
def test_pieces_of_a_line_are_one_line(analyze, stamp, counts):
    """Only the first piece was read: half of the steps."""
    whole, joined = (
        analyze(device(each, stamp=stamp, counts=counts)).to_dict()
        for each in (lambda _: 0, lambda s: s // 4)
    )
    for name in ("verdict", "steps", "breakdown", "ops", "findings", "warnings"):
        assert joined[name] == whole[name], name


def test_of_lines_side_by_side_the_longest_is_read_and_it_is_said(analyze):
    report = analyze(device(lambda step: int(step % 4 == 3)))
    (said,) = (each for each in report.warnings if "several lines of one name" in each)
    assert "(XLA Modules, XLA Ops): figures are of the longest, and 4 events are left out" in said


def test_of_two_planes_of_a_device_the_one_with_most_events_is_read_and_it_is_said(analyze):
    trace = device(lambda _: 0)
    trace.space.planes.add().CopyFrom(trace.space.planes[0])
    del trace.space.planes[1].lines[0].events[2:]
    report = analyze(trace)
    assert (report.steps.count, report.environment["device_count"]) == (COUNT, 1)
    assert "/device:TPU:0: the trace has 2 planes of this name" in "".join(report.warnings)


def test_texts_of_events_stay_with_their_events():
    (plane,) = xplane.parse(device(lambda step: step // 3).to_bytes(), "x").planes
    kept, left_out = one_of_each(plane.lines)
    modules = next(line for line in kept if line.name == "XLA Modules")
    texts = plane.stat_text(modules.read_stats(plane.stat_keys(["run_id"])), "run_id", len(modules))
    assert [texts.strings[code] for code in texts.codes] == ["r" * (step + 1) for step in range(COUNT)]
    assert left_out == []
