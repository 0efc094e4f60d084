"""Counting after the capture: steps, compiles by line, bounded, written as it goes."""

import math

import pytest

from tpuprof.capture import aftermath, run_writer
from tpuprof.capture.aftermath import MAX_LINES, MAX_STEPS, Aftermath
from tpuprof.model.compile.recurrence import CLASSES_PER_DOUBLING


class Extension:
    compiled = 7

    def _xla_counter_value(self, name):
        return {"UncachedCompile": self.compiled, "CachedCompile": 100}[name]

    def _xla_metric_data(self, name):
        return (self.compiled, self.compiled * 0.1e9, []) if name == "CompileTime" else None


def counting():
    extension, written = Extension(), []
    return extension, Aftermath(extension, written.append), written


def test_steps_and_compiles_are_counted_from_the_end_of_the_capture():
    extension, after, written = counting()
    for step in range(10):
        after.before_cut()
        extension.compiled += step in (3, 6)
        assert after.cut_ended(0.2) == extension.compiled + 100
        after.step_ended()
    after.close()
    found = written[-1]
    assert (found["steps"], found["compiling_steps"], found["graphs"], found["ended"]) == (10, 2, 2, True)
    (line,) = found["lines"].values()
    assert line["steps"] == [3, 6]
    assert line["frames"]


def test_a_line_that_compiles_at_many_cuts_of_a_step_does_so_once():
    """The first evaluation behind a capture compiled at a hundred cuts: it was unknown that none came again."""
    extension, after, written = counting()
    for step in range(10):
        for _ in range(2 * MAX_STEPS if step in (4, 6) else 1):
            after.before_cut()
            extension.compiled += step in (4, 6)
            after.cut_ended(0.2)
        after.step_ended()
    after.close()
    (line,) = written[-1]["lines"].values()
    assert (line["steps"], line["cuts"], line["graphs"]) == ([4, 6], 2, 4 * MAX_STEPS)


def test_compiles_between_cuts_have_no_line():
    extension, after, written = counting()
    extension.compiled += 2
    after.before_cut()
    after.close()
    assert [*written[-1]["lines"]] == ["unknown"]
    assert written[-1]["graphs"] == 2


def test_compiles_of_the_last_step_count_where_the_framework_notes_them_itself():
    extension, written, noted = Extension(), [], []
    extension.drain_compiles = lambda: [noted.pop()] if noted else []
    after = Aftermath(extension, written.append)
    noted.append((2, 0.5, ["f (x.py:3)"]))
    extension.compiled += 2
    after.close()
    (line,) = written[-1]["lines"]
    assert (line, written[-1]["graphs"], written[-1]["seconds"]) == ("f (x.py:3)", 2, 0.5)


@pytest.mark.parametrize("marked", [True, False])
def test_what_compiles_behind_the_last_step_is_a_step_only_where_the_program_marks_them(marked):
    """A last evaluation compiled for 1.3 s: steps took 11 ms "without compiles", of 17."""
    extension, after, written = counting()
    after.marked = marked
    for step in range(10):
        after.before_cut()
        extension.compiled += step == 3
        after.cut_ended(0.2)
        after.step_ended()
    for _ in range(2):
        after.before_cut()
        extension.compiled += 2
        after.cut_ended(0.5)
    extension.compiled += 1
    after.close()
    found = written[-1]
    (at_cuts, *others) = found["lines"].values()
    if marked:
        assert (found["steps"], found["compiling_steps"], found["graphs"]) == (11, 2, 6)
        assert [at_cuts["steps"], *(each["steps"] for each in others)] == [[3], [10], [10]]
    else:
        assert (found["steps"], found["compiling_steps"], found["graphs"]) == (10, 1, 1)
        assert found["seconds"] == pytest.approx(0.2)
        assert (at_cuts["steps"], at_cuts["cuts"], at_cuts["graphs"], others) == ([3], 1, 1, [])


def test_the_cut_of_the_last_step_stays_one_beside_what_compiles_behind_it():
    """In a rest the optimizer's call ends the step, and the graph cut that is its own comes behind."""
    extension, after, written = counting()
    after.marked = False
    after.step_ended()
    for own in (True, False):
        extension.compiled += 1
        after.cut_ended(0.2)
        if own:
            after.close_step()
    after.close()
    found = written[-1]
    assert (found["steps"], found["compiling_steps"], found["graphs"], found["seconds"]) == (1, 1, 1, 0.2)
    (line,) = found["lines"].values()
    assert (line["cuts"], line["graphs"], line["steps"]) == (1, 1, [1])


def test_what_was_noted_before_did_not_come_after():
    """A recording by the clock asks for no compiles: those inside it wait there until it has ended."""
    extension, written = Extension(), []
    noted = [(2, 0.5, ["f (x.py:3)"])]
    extension.drain_compiles = lambda: [noted.pop()] if noted else []
    Aftermath(extension, written.append).close()
    assert (written[-1]["graphs"], written[-1]["lines"]) == (0, {})


def test_memory_is_bounded(monkeypatch):
    extension, after, written = counting()
    for number in range(MAX_LINES + 50):
        frames = [f"f (x.py:{number})"]
        monkeypatch.setattr(aftermath, "user_frames", lambda frames=frames: frames)
        after.before_cut()
        extension.compiled += 1
        assert after.cut_ended(0.2) == extension.compiled + 100
        after.step_ended()
    after.close()
    assert len(written[-1]["lines"]) == MAX_LINES + 1
    assert written[-1]["graphs"] == MAX_LINES + 50
    assert len(written[-1]["lines"]["unknown"]["steps"]) == MAX_STEPS


def test_how_long_steps_took_is_counted_in_classes(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(aftermath.time, "monotonic", lambda: now[0])
    _, after, written = counting()
    for took in (0.05, 0.05, 0.4, 0.0):
        now[0] += took
        after.step_ended()
    after.close()
    found = written[-1]["lengths"]
    assert found == {round(4 * math.log2(50_000)): 2, round(4 * math.log2(400_000)): 1, 0: 1}
    assert aftermath.CLASSES_PER_DOUBLING == CLASSES_PER_DOUBLING


def test_it_writes_from_time_to_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(aftermath.time, "monotonic", lambda: now[0])
    _, after, written = counting()
    for _ in range(64):
        after.step_ended()
        now[0] += 1.0
    assert len(written) == 2
    assert not written[-1]["ended"]


def test_the_time_of_steps_ends_with_the_last_of_them(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(aftermath.time, "monotonic", lambda: now[0])
    _, after, written = counting()
    for _ in range(4):
        now[0] += 0.5
        after.step_ended()
    now[0] += 30.0
    after.close()
    assert (written[-1]["steps_seconds"], written[-1]["wall_seconds"]) == (2.0, 32.0)


def test_a_new_capture_into_the_folder_forgets_what_came_after_the_old_one(tmp_path):
    path = run_writer.write_after(tmp_path, "vm.0", {"steps": 29})
    other = run_writer.write_after(tmp_path, "vm.1", {"steps": 29})
    run_writer.forget_after(tmp_path, "vm.0")
    run_writer.forget_after(tmp_path, "vm.0")
    assert (path.exists(), other.exists()) == (False, True)


def steps_of_stages(monkeypatch, compiling, steps):
    """Counts steps that take 10 ms, 20 ms since the first compile, 30 ms since the next, and compiles of a second."""
    extension, now = Extension(), [0.0]
    monkeypatch.setattr(aftermath.time, "monotonic", lambda: now[0])
    written = []
    after, made = Aftermath(extension, written.append), 0
    for step in range(steps):
        made += step in compiling
        extension.compiled += step in compiling
        now[0] += 1.0 if step in compiling else 0.01 * (made + 1)
        after.cut_ended(0.9)
        after.step_ended()
    after.close()
    return written[-1]["stages"]


def test_stretches_between_compiles_are_kept_with_their_time(monkeypatch):
    found = steps_of_stages(monkeypatch, (30, 31, 62), 100)
    assert [(each["first"], each["steps"], round(each["seconds"], 3)) for each in found] == [
        (0, 30, 0.3), (31, 0, 0.0), (32, 30, 0.9), (63, 37, 1.48),
    ]  # fmt: skip


def test_of_many_compiles_the_first_stretches_are_kept(monkeypatch):
    found = steps_of_stages(monkeypatch, range(5, 500, 5), 500)
    assert len(found) == aftermath.MAX_STAGES
    # What follows the last one that is kept is no longer told apart, and is not taken for it.
    assert {each["steps"] for each in found} == {5, 4}
