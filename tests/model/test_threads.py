"""Several threads give the device work: which is followed, and what is said of the others."""

from tests.builders import TraceBuilder


def cuts(thread, count, offset=0):
    for number in range(count):
        end = 1000 * (number + 1) + offset
        thread.event("StepMarker", end - 100, 100)
        thread.event("RunPostOrder", end - 80, 20)
        thread.event("ScheduleSyncTensorsGraph", end - 50, 20)


def test_one_thread_needs_no_warning(analyze):
    trace = TraceBuilder()
    cuts(trace.host().line("python"), 6)
    report = analyze(trace)
    assert [(row.name, row.programs, row.share, row.followed) for row in report.threads] == [
        ("python", 6, 1.0, True)
    ]
    assert not any("threads handed" in each for each in report.warnings)


def test_the_thread_with_most_cuts_is_followed_and_the_other_is_named(analyze):
    trace = TraceBuilder()
    cuts(trace.host().line("python"), 3)
    cuts(trace.host().line("trainer"), 9, offset=300)
    report = analyze(trace)
    assert [(row.name, row.followed, row.why) for row in report.threads] == [
        ("trainer", True, "it cut most graphs"),
        ("python", False, ""),
    ]
    assert any("2 threads handed programs" in each and "75 %" in each for each in report.warnings)


def test_a_busier_thread_than_the_marked_one_is_warned_of(analyze):
    trace = TraceBuilder()
    python = trace.host().line("python")
    cuts(python, 3)
    for number in range(3):
        python.event("train_step", 1000 * number, 1000, _r=1, step_num=number)
    cuts(trace.host().line("other"), 9, offset=300)
    report = analyze(trace)
    assert report.threads[0].why == "it has the step markers"
    assert any("thread 'other' handed over more (75 %)" in each for each in report.warnings)


def test_autograds_thread_works_for_the_training_thread(analyze):
    trace = TraceBuilder()
    cuts(trace.host().line("python"), 6)
    cuts(trace.host().line("pt_autograd_0"), 6, offset=300)
    report = analyze(trace)
    assert [row.name for row in report.threads] == ["python", "pt_autograd_0"]
    assert not any("threads handed" in each for each in report.warnings)


def test_a_callback_that_hands_programs_over_itself_is_part_of_a_step(analyze):
    """JAX runs it on a thread of XLA's CPU client, and it may call far more functions than the training loop."""
    trace = TraceBuilder()
    cuts(trace.host().line("python"), 6)
    cuts(trace.host().line("tf_XLAEigen/7"), 60, offset=300)
    report = analyze(trace)
    assert [(row.name, row.followed) for row in report.threads] == [
        ("python", True),
        ("tf_XLAEigen/7", False),
    ]
    assert not any("threads handed" in each for each in report.warnings)


def test_where_no_other_thread_hands_programs_over_one_of_xlas_own_is_followed(analyze):
    trace = TraceBuilder()
    cuts(trace.host().line("tf_XLAEigen/7"), 6)
    assert [row.followed for row in analyze(trace).threads] == [True]
