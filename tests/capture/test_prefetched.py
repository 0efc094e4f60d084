"""Batches that a loader made ahead: when they are used up."""

import sys
import threading
from collections import deque
from types import SimpleNamespace

import pytest

from tpuprof.capture import prefetched as prefetched_module
from tpuprof.capture.prefetched import SHRUNK_BY, Prefetched
from tpuprof.own_events import NEW_WORKERS


class ParallelLoader:
    """As torch_xla's: a thread of its own, a queue of batches on the device, and one before it."""

    def __init__(self):
        self.device, self.cpu = deque(), deque()
        queues = SimpleNamespace(
            queue=SimpleNamespace(_items=self.device, max_size=lambda: 8),
            cpu_loader_queue=SimpleNamespace(_items=self.cpu),
        )
        self._queues = {"xla:0": queues}
        self._end, self._made, self._to_make = threading.Event(), threading.Event(), deque()
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self):
        while not self._end.wait(0.001):
            while self._to_make:
                self._to_make.popleft()()
                self._made.set()

    def makes(self, what):
        """Call it in the loader's thread."""
        self._to_make.append(what)
        assert self._made.wait(10)

    def close(self):
        self._end.set()
        self.thread.join()

    def holds(self, device, cpu):
        self.device.clear()
        self.cpu.clear()
        self.device.extend(range(device))
        self.cpu.extend(range(cpu))


@pytest.fixture
def loader():
    made = ParallelLoader()
    yield made
    made.close()


def after(loader, *levels):
    prefetched = Prefetched()
    for device, cpu in levels:
        loader.holds(device, cpu)
        prefetched.step_ended()
    return prefetched.used_up


FULL = [(8, 16)] * 9


def test_a_shrinking_queue_hands_out_what_was_made_before(loader):
    assert after(loader, *FULL)
    assert after(loader, *FULL, (8, 16 - SHRUNK_BY + 1))
    assert not after(loader, *FULL, (8, 16 - SHRUNK_BY))


def test_what_the_loader_has_in_hand_is_used_up_before_a_queue_shrinks(loader):
    assert not after(loader, *FULL[:8])
    assert not after(loader, (8, 4), (7, 4), (6, 4))


def test_a_loader_whose_epoch_is_made_still_holds_its_batches(loader):
    """Its threads end with the epoch's last batch, in a short epoch before the first compile ends."""
    prefetched = Prefetched()
    loader.holds(8, 4)
    prefetched.step_ended()
    loader.close()
    for ready in (8, 7, 6, 5, 1):
        loader.holds(ready, 0)
        prefetched.step_ended()
        assert not prefetched.used_up
    loader.holds(0, 0)
    prefetched.step_ended()
    assert prefetched.used_up


def test_a_loader_that_was_closed_hands_out_nothing_more(loader):
    prefetched = Prefetched()
    prefetched.step_ended()
    loader.close()
    loader.holds(8, 0)
    loader._done = True
    prefetched.step_ended()
    assert prefetched.used_up


def test_a_loader_that_keeps_up_is_not_waited_for_long(loader):
    assert after(loader, *FULL, (7, 16), (8, 8), (8, 12), (8, 16))
    assert after(loader, *[(8, 2 + number) for number in range(9)])


def test_once_empty_the_queue_refills_in_bursts(loader):
    assert after(loader, (3, 0), (0, 5), (7, 0), (5, 0), (3, 0))


@pytest.mark.parametrize(("device", "burst"), [(0, 8), (1, 0)])
def test_a_loader_that_runs_empty_hands_over_as_many_as_its_queue_holds(loader, device, burst):
    prefetched = Prefetched()
    loader.holds(device, 0)
    prefetched.step_ended()
    assert prefetched.burst == burst


@pytest.mark.parametrize(("compiling", "used_up"), [(True, False), (False, True)])
def test_a_queue_that_was_empty_before_a_compile_has_filled_meanwhile(loader, compiling, used_up):
    """The first step of a slow loader ends with nothing ready, and the next one compiles for seconds."""
    prefetched = Prefetched()
    loader.holds(0, 0)
    prefetched.step_ended(compiling=compiling)
    for device in (8, 7, 6, 5):
        loader.holds(device, 16)
        prefetched.step_ended()
    assert prefetched.used_up == used_up


def test_programs_without_such_loaders_are_not_held_up():
    prefetched = Prefetched()
    prefetched.step_ended()
    assert prefetched.used_up


def test_a_loader_with_workers_is_noted_and_everything_is_put_back():
    data = pytest.importorskip("torch.utils.data")
    owner = data.dataloader._MultiProcessingDataLoaderIter
    original = owner.__init__
    prefetched = Prefetched()
    prefetched.install()
    rows = iter(data.DataLoader(range(12), num_workers=1, prefetch_factor=4))
    assert len(prefetched._iterators) == 1
    assert [prefetched.step_ended() for _ in rows] == [None] * 12
    assert prefetched.used_up
    prefetched.remove()
    assert owner.__init__ is original


class _Iterator:
    """As an iterator with workers: nothing has arrived."""

    def __init__(self):
        self._task_info = {}
        self._data_queue = SimpleNamespace(qsize=lambda: 0)


def noting(monkeypatch, iterator):
    """What notes iterators of this class, as if it were torch's."""
    module = SimpleNamespace(_MultiProcessingDataLoaderIter=iterator)
    monkeypatch.setitem(sys.modules, "torch.utils.data.dataloader", module)
    prefetched = Prefetched()
    prefetched.install()
    return prefetched


@pytest.mark.parametrize(("feeds", "used_up"), [(True, False), (False, True)])
def test_workers_that_feed_a_loader_may_be_behind_while_its_queue_lasts(monkeypatch, loader, feeds, used_up):
    """A chain of both: "the device is busy for 80 % of each step" was said of steps that all wait for one worker later."""
    prefetched = noting(monkeypatch, _Iterator)
    kept = []
    loader.makes(lambda: kept.append(_Iterator())) if feeds else kept.append(_Iterator())
    for ready in (8, 7, 6, 5):
        loader.holds(ready, 16)
        prefetched.step_ended()
    assert kept
    assert prefetched.used_up == used_up
    prefetched.remove()


@pytest.mark.parametrize(("feeds", "armed", "events"), [(True, True, 1), (False, True, 0), (True, False, 0)])
def test_workers_that_a_loaders_thread_starts_are_an_event(monkeypatch, loader, feeds, armed, events):
    """Training waits for them in a queue, and its own stack does not show them."""
    opened = []
    monkeypatch.setattr(prefetched_module, "open_span", lambda *names: opened.append(names))
    monkeypatch.setattr(prefetched_module.STATE, "armed", armed)
    prefetched = noting(monkeypatch, _Iterator)
    kept = []
    loader.makes(lambda: kept.append(_Iterator())) if feeds else kept.append(_Iterator())
    prefetched.remove()
    assert opened == [(NEW_WORKERS, "input")] * events
    assert len(kept) == 1


def test_loaders_of_other_versions_are_left_alone(loader):
    loader._queues = {"xla:0": object()}
    prefetched = Prefetched()
    prefetched.step_ended()
    assert prefetched.used_up


def test_a_loader_that_cannot_be_noted_is_made_all_the_same(monkeypatch):
    class Iterator:
        __hash__ = None
        made = False

        def __init__(self):
            self.made = True

    prefetched = noting(monkeypatch, Iterator)
    assert Iterator().made
    prefetched.remove()
    assert prefetched.used_up


def test_a_thread_whose_object_answers_nothing_makes_its_loader_all_the_same(monkeypatch):
    """A class of the program's own, whose attributes raise."""
    monkeypatch.setattr(prefetched_module, "_owner_of", lambda _thread: 1 / 0)
    prefetched = noting(monkeypatch, _Iterator)
    assert _Iterator()._task_info == {}
    prefetched.remove()
