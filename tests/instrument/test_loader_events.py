"""An event of the next batch says where it comes from: from a queue, or from the thread that asks."""

import sys
from types import SimpleNamespace

import pytest

from tpuprof.instrument import host_events
from tpuprof.own_events import FROM_PROCESSES, FROM_THREADS, NEXT_BATCH, TAKEN_FROM


class Base:
    def __next__(self):
        return "a batch"


class PerDevice:
    def next(self):
        return "a batch"


class WithWorkers(Base):
    _num_workers = 2


class Alone(Base):
    _num_workers = 0


class Odd(Base):
    @property
    def _num_workers(self):
        raise RuntimeError("not yet known")


@pytest.fixture
def opened(monkeypatch):
    spans = []
    monkeypatch.setattr(host_events, "open_span", lambda event, _kind, **facts: spans.append((event, facts)))
    torch = SimpleNamespace(_BaseDataLoaderIter=Base)
    monkeypatch.setitem(sys.modules, "torch.utils.data.dataloader", torch)
    loader = SimpleNamespace(PerDeviceLoader=PerDevice)
    monkeypatch.setitem(sys.modules, "torch_xla.distributed.parallel_loader", loader)
    host_events.install()
    yield spans
    host_events.remove()


@pytest.mark.parametrize(
    ("take", "facts"),
    [
        (lambda: next(Alone()), {}),
        (lambda: next(WithWorkers()), {TAKEN_FROM: FROM_PROCESSES}),
        (lambda: PerDevice().next(), {TAKEN_FROM: FROM_THREADS}),
        (lambda: next(Odd()), {}),
    ],
)
def test_the_event_of_a_batch_says_from_which_queue_it_comes(opened, take, facts):
    assert take() == "a batch"
    assert opened == [(NEXT_BATCH, facts)]
