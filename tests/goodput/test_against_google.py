"""Our account and Google's calculator, given the same log."""

import pytest

from tpuprof.goodput.account import account
from tpuprof.goodput.google_log import attempts_of

goodput = pytest.importorskip("ml_goodput_measurement.src.goodput")
utils = pytest.importorskip("ml_goodput_measurement.src.goodput_utils")
START = 1_760_000_000.0
LOADING = 5.0


class Log:
    """Stands for Cloud Logging: keeps entries, and gives back all of them."""

    def __init__(self):
        self.entries = []
        self.now = START

    def read_cloud_logging_entries(self, start_time=None, end_time=None, last_entry_info=None):
        return list(self.entries), None

    def add(self, **entry):
        self.entries.append({"job_name": "job", **entry})

    def phase(self, name, seconds):
        self.add(**{f"{name}_start_time": self.now})
        self.now += seconds
        self.add(**{f"{name}_end_time": self.now})

    def start(self, init=30.0, prep=20.0, loading=LOADING):
        self.add(job_start_time=self.now)
        self.now += 2.0
        self.phase("tpu_init", init)
        self.phase("training_prep", prep)
        self.phase("data_loading", loading)

    def steps(self, first, last, seconds=2.0, first_extra=10.0, saves=(), save=4.0, custom=()):
        for step in range(first, last + 1):
            self.add(step_count=step, step_start_time=self.now)
            if step in custom:
                self.add(custom_badput_event_type="eval", custom_badput_event_start_time=self.now + 0.5)
                self.now += 6.5
                self.add(custom_badput_event_type="eval", custom_badput_event_end_time=self.now)
            if step in saves:
                self.add(
                    event_type="save",
                    step=step,
                    directory="gs://bucket",
                    checkpoint_manager_blocking_start_time=self.now,
                    checkpoint_manager_blocking_duration_secs=save,
                    checkpointer_blocking_duration_secs=save / 2,
                    wait_for_prev_duration_secs=0.0,
                    get_old_steps_duration_secs=0.0,
                )
                self.now += save
            self.now += seconds + (first_extra if step == first else 0.0)

    def restore(self, step, seconds):
        self.add(
            event_type="restore",
            step=step,
            directory="gs://bucket",
            checkpoint_manager_start_time=self.now,
            checkpoint_manager_duration_secs=seconds,
            checkpointer_duration_secs=seconds,
            broadcast_duration_secs=0.0,
        )
        self.now += seconds

    def end(self):
        self.add(job_end_time=self.now)


def undisturbed(log):
    log.start()
    log.steps(0, 99, saves=(20, 40, 60), custom=(50,))
    log.end()


def crashes(log):
    log.start()
    log.steps(0, 57, saves=(20, 40))
    log.now += 130.0  # the machine comes back
    log.start(init=25.0)
    log.restore(40, 12.0)
    log.steps(41, 90, saves=(60, 80))
    log.now += 65.0
    log.start()
    log.restore(80, 15.0)
    log.steps(81, 120, custom=(100, 110))
    log.end()


def steady_restarts(log):
    for at in range(4):
        log.start(init=10.0 + at)
        log.steps(1 + 30 * at, 1 + 30 * (at + 1), seconds=1.0 + at / 10)
        log.now += 40.0 if at < 3 else 0.0
    log.end()


@pytest.mark.parametrize("story", [undisturbed, crashes, steady_restarts])
def test_the_same_log_gives_the_same_account(story, tmp_path):
    log = Log()
    story(log)
    calculator = goodput.GoodputCalculator("job", "log", cloud_logger=log, cache_dir=str(tmp_path))
    share, badput, last = calculator.get_job_goodput(include_badput_breakdown=True)
    ours = account(attempts_of(log.entries), stalls=False)
    wall = ours.wall_ns / 1e9
    assert wall == pytest.approx(log.now - START, abs=1e-5)
    assert 100 * ours.goodput == pytest.approx(share, abs=0.01)
    assert ours.last_step == last
    # Google's calculator counts the first loading of the third and later attempts twice, and has less "other" for it.
    attempts = sum("job_start_time" in entry for entry in log.entries)
    twice = 100 * LOADING * max(0, attempts - 2) / wall
    badput[utils.BadputType.DATA_LOADING_SYNC] -= twice
    for kind in utils.BadputType:
        if kind.name in ("DATA_LOADING_ASYNC", "CUSTOM_BADPUT_EVENTS", "OTHER") or kind.name.startswith(
            "ELASTIC"
        ):
            continue
        assert 100 * ours.kinds[kind.name.lower()] / ours.wall_ns == pytest.approx(badput[kind], abs=0.01), (
            kind
        )
    for name, value in badput[utils.BadputType.CUSTOM_BADPUT_EVENTS].items():
        assert 100 * ours.custom[name.lower()] / ours.wall_ns == pytest.approx(value, abs=0.01)
    other = badput[utils.BadputType.OTHER]
    assert max(0, 100 * ours.kinds["other"] / ours.wall_ns - twice) == pytest.approx(other, abs=0.01)
    assert calculator._number_of_interruptions in (ours.disruptions, 0)


def test_a_resume_without_lost_steps_is_idle_time_and_not_a_long_step(tmp_path):
    """Google's calculator sees a disruption only where a step comes again; else the pause counts as a step."""
    log = Log()
    log.start()
    log.steps(0, 20)
    log.now += 600.0
    log.start()
    log.steps(21, 40)
    log.end()
    calculator = goodput.GoodputCalculator("job", "log", cloud_logger=log, cache_dir=str(tmp_path))
    share, _, _ = calculator.get_job_goodput()
    ours = account(attempts_of(log.entries), stalls=False)
    assert share > 80
    assert ours.kinds["infrastructure_recovery_from_disruption"] >= 600e9
    assert ours.wall_ns == pytest.approx((log.now - START) * 1e9, abs=1e4)
