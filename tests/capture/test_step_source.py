"""A program that marks its steps in several ways at once has each step counted once."""

from tpuprof.capture.step_source import BestSource, StepSource


def test_the_surest_source_takes_over_and_stays():
    best = BestSource(StepSource.FOUND)
    heard = [StepSource.FOUND, StepSource.ANNOTATION, StepSource.FOUND, StepSource.MARKED, StepSource.LOOP]
    assert [best.counts(each) for each in heard] == [True, True, False, True, False]


def test_less_than_the_least_never_counts():
    best = BestSource(StepSource.ANNOTATION)
    assert not best.counts(StepSource.FOUND)
    assert best.counts(StepSource.ANNOTATION)
