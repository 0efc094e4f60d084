"""Samples that fall into tpuprof's own work are none of the program's."""

import sys
import threading
import time

from tests.instrument.test_host_sampler import Extension
from tpuprof.instrument import host_sampler, sync_guard
from tpuprof.instrument.known_codes import KnownCodes
from tpuprof.instrument.own_work import OwnWork, learn_own
from tpuprof.instrument.state import STATE
from tpuprof.instrument.wrapped_calls import with_event


def stack():
    """The stack of who calls, innermost first, with all frames."""
    frame, places = sys._getframe(1), []
    while frame is not None:
        places.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return places


def seen_by(caller):
    """The stack of our own function that calls an observer, as it is while it calls."""
    seen = []
    caller(lambda *_: seen.append(stack()[1:]))
    return seen[0]


def observed(observer):
    sync_guard._call_each((observer,))


def test_what_a_step_end_does_is_our_own_work():
    assert OwnWork().does(seen_by(observed))


def test_a_library_that_our_own_work_calls_is_part_of_it():
    import torch

    library = [(torch.is_tensor.__code__, 0), (threading.Thread.run.__code__, 0)]
    assert OwnWork().does(library + seen_by(observed))


def test_a_call_that_is_passed_on_is_the_programs(monkeypatch):
    monkeypatch.setattr(STATE, "armed", True)
    assert not OwnWork().does(seen_by(lambda observer: with_event("tpuprof.graph_cut", "sync", observer)()))


def test_the_programs_code_is_the_programs_wherever_it_was_called_from():
    places = seen_by(observed)
    assert not OwnWork().does([(stack.__code__, 0), *places])
    assert not OwnWork().does([(threading.Thread.run.__code__, 0), (stack.__code__, 0)])
    assert not OwnWork().does([])


def test_a_program_that_our_launcher_runs_is_no_work_of_ours():
    launched = seen_by(observed)[:1]
    assert not OwnWork().does([*launched, (threading.Thread.run.__code__, 0)])


def test_our_own_functions_are_known_before_they_are_seen():
    codes = KnownCodes()
    learn_own(codes)
    assert codes[id(sync_guard._call_each.__code__)] is sync_guard._call_each.__code__
    # One that is defined in another: it stands around each graph cut.
    assert "guarded" in {code.co_name for code in codes.values()}


def _runs(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def test_the_next_sample_stands_for_the_time_of_one_in_our_own_work(monkeypatch):
    # Our own work takes most of the time: a sample falls into it again and again.
    own = compile("def own_work(seconds, run):\n    run(seconds)\n", sync_guard.__file__, "exec")
    names = {}
    exec(own, names)
    library = compile(
        "import time\ndef library(seconds):\n    until = time.perf_counter() + seconds\n"
        "    while time.perf_counter() < until:\n        pass\n",
        threading.__file__,
        "exec",
    )
    exec(library, names)
    put = []
    monkeypatch.setattr(host_sampler.HostSampler, "_put", lambda _, name: put.append(name))
    sampler = host_sampler.HostSampler(Extension, threading.get_ident(), step_seconds=0.0)
    sampler.start()
    began = time.perf_counter()
    for _ in range(40):
        names["own_work"](0.008, names["library"])
        _runs(0.004)
    took = time.perf_counter() - began
    told = sampler.stop()
    samples = [name for name in put if name.startswith("tpuprof.sample")]
    gaps = [int(name.partition("gap_us=")[2].partition(",")[0]) for name in samples]
    assert told["error"] == ""
    assert samples
    # Two thirds of the time are our own work.
    assert len(samples) == told["samples"] < 0.6 * sampler._waits
    # Nothing is lost: the samples that are left stand for nearly all of the time.
    assert sum(gaps) > 0.9 * took * 1e6
