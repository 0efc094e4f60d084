"""The sampler of the training thread leaves its variables alone."""

import _thread
import asyncio
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from tpuprof.instrument import host_sampler
from tpuprof.instrument.hidden_thread import HiddenThread
from tpuprof.instrument.in_backward import autograd_thread
from tpuprof.instrument.stack_text import places_of_thread
from tpuprof.own_events import HOLDER, SAMPLE
from tpuprof.safe_text import FROM_SAFE

# Samples to take at least, and how long to wait for them (s).
SAMPLES, AT_MOST = 2000, 30.0


class TraceMe:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Profiler:
    TraceMe = TraceMe


class Extension:
    profiler = Profiler

    @staticmethod
    def _xla_counter_value(_name):
        return 0


class Variable:
    pass


def uses_a_variable(seen):
    variable = Variable()
    seen.append(weakref.ref(variable))
    for _ in range(20):
        len(seen)


@pytest.fixture
def threads_switch_all_the_time():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_variables_of_a_sampled_function_end_with_it(threads_switch_all_the_time):
    sampler = host_sampler.HostSampler(Extension, threading.get_ident())
    sampler.interval = 1e-4
    sampler.start()
    alive, until = 0, time.monotonic() + AT_MOST
    while sampler.samples < SAMPLES and time.monotonic() < until:
        seen = []
        uses_a_variable(seen)
        alive += seen[0]() is not None
    told = sampler.stop()
    assert told["error"] == ""
    assert told["samples"] > 100
    assert alive == 0


def test_a_thread_that_has_ended_has_no_stack():
    thread = threading.Thread(target=lambda: None)
    thread.start()
    ident = thread.ident
    thread.join()
    assert places_of_thread(ident) is None


def test_the_stack_of_a_thread_and_the_cpu_time_of_all():
    begun, end = threading.Event(), threading.Event()

    def waits():
        begun.set()
        end.wait()

    thread = threading.Thread(target=waits)
    thread.start()
    begun.wait()
    names = [code.co_name for code, _ in places_of_thread(thread.ident)]
    cpu = host_sampler.cpu_of_threads()
    end.set()
    thread.join()
    assert "waits" in names
    assert names.index("wait") < names.index("waits")
    assert cpu[thread.ident] >= 0
    assert threading.get_ident() in cpu


def sampled_in(coroutine):
    """The words of all stacks that a sampler sees which begins in a running coroutine.

    In a thread of its own: in the tests' own thread, the loop of a browser may run.
    """
    names = []

    class Noting(TraceMe):
        def __init__(self, name):
            names.append(name)

    class Recording(Extension):
        profiler = type("Profiler", (), {"TraceMe": Noting})

    async def begins_and_runs():
        sampler = host_sampler.HostSampler(Recording, threading.get_ident(), 0.001)
        sampler.start()
        until = time.monotonic() + AT_MOST
        while not names and time.monotonic() < until:
            await coroutine()
        assert sampler.stop()["error"] == ""

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, begins_and_runs()).result()
    return [name.translate(FROM_SAFE) for name in names]


def test_a_coroutine_that_awaits_is_named_with_its_line_not_the_loop_s():
    async def waits():
        await asyncio.sleep(0.03)

    line = waits.__code__.co_firstlineno + 1
    words = sampled_in(waits)[0]
    assert f";waits ({__file__}:{line}),call=await asyncio.sleep(0.03),source={__file__}:{line}," in words


@pytest.mark.parametrize("ends", ["finishes", "is left"])
def test_an_asynchronous_generator_that_awaits_is_named_with_its_line(ends):
    """The coroutine around it is at `async for`, which says nothing of what the generator does."""

    async def batches():
        await asyncio.sleep(0.03)
        yield 1

    async def trains():
        async for _ in batches():
            if ends == "is left":
                return

    line = batches.__code__.co_firstlineno + 1
    words = sampled_in(trains)
    assert any(
        f";batches ({__file__}:{line}),call=await asyncio.sleep(0.03),source={__file__}:{line}," in each
        for each in words
    )
    assert any(";trains (" in each for each in words)


def test_other_work_of_the_loop_is_named_itself_while_training_awaits():
    def is_busy(until):
        while time.monotonic() < until:
            sum(range(100))

    async def waits():
        asyncio.get_running_loop().call_soon(is_busy, time.monotonic() + 0.03)
        await asyncio.sleep(0.03)

    assert any(";is_busy (" in name for name in sampled_in(waits))


def test_the_stack_of_a_thread_that_holds_the_lock_is_told_once():
    names, end = [], threading.Event()

    class Noting(TraceMe):
        def __init__(self, name):
            names.append(name)

    class Recording(Extension):
        profiler = type("Profiler", (), {"TraceMe": Noting})

    def hogs_the_lock():
        while not end.is_set():
            sum(range(2000))

    hog = threading.Thread(target=hogs_the_lock)
    sampler = host_sampler.HostSampler(Recording, threading.get_ident())
    hog.start()
    sampler.start()
    until = time.monotonic() + AT_MOST
    while sampler.samples < 60 and time.monotonic() < until:
        time.sleep(0.002)
    told = sampler.stop()
    end.set()
    hog.join()
    assert told["error"] == ""
    holders = [name for name in names if name.startswith(HOLDER)]
    assert any("hogs_the_lock" in name for name in holders)
    assert len(holders) == len(set(holders))
    assert any(",holder=" in name for name in names if name.startswith(SAMPLE))


@pytest.mark.parametrize(
    ("step", "interval"), [(None, 0.005), (0.001, 0.002), (0.012, 0.004), (0.015, 0.005), (3.0, 0.005)]
)
def test_short_steps_are_sampled_more_often_within_bounds(step, interval):
    assert host_sampler.interval_for(step) == pytest.approx(interval)


@pytest.mark.parametrize(
    ("cost", "interval"), [(0.00006, 0.004), (0.00016, 0.004), (0.0002, 0.005), (0.0006, 0.010)]
)
def test_where_samples_take_long_they_become_fewer(cost, interval):
    assert host_sampler.lengthened(0.004, cost, host_sampler.FIRST_SAMPLES) == pytest.approx(interval)


@pytest.mark.parametrize(
    ("cost", "interval"), [(0.00024, 0.002), (0.00048, 0.004), (0.0024, host_sampler.SLOWEST)]
)
def test_the_first_samples_of_a_recording_may_come_three_times_as_often(cost, interval):
    first = host_sampler.lengthened(0.002, cost, host_sampler.FIRST_SAMPLES - 1)
    assert first == pytest.approx(interval)
    assert host_sampler.lengthened(0.002, cost, host_sampler.FIRST_SAMPLES) >= first


def test_a_sampler_that_takes_long_slows_down(monkeypatch):
    clock = iter(range(0, 10**12, 2 * 10**6))
    monkeypatch.setattr(host_sampler.time, "thread_time_ns", lambda: next(clock))
    sampler = host_sampler.HostSampler(Extension, threading.get_ident(), 0.001)
    sampler.start()
    until = time.monotonic() + AT_MOST
    while sampler.samples < 3 and time.monotonic() < until:
        time.sleep(0.001)
    assert sampler.stop()["interval_ms"] == host_sampler.SLOWEST * 1e3


def test_what_autograds_thread_runs_stands_for_the_wait_in_backward():
    """C++ began that thread, so its stack begins in the user's function; its work is the training thread's."""
    names, waits = [], {}
    engine = "def _engine_run_backward(lock):\n    lock.acquire()\n"
    exec(compile(engine, "/venv/site-packages/torch/autograd/graph.py", "exec"), waits)

    class Noting(TraceMe):
        def __init__(self, name):
            names.append(name)

    class Recording(Extension):
        profiler = type("Profiler", (), {"TraceMe": Noting})

    sampler = host_sampler.HostSampler(Recording, threading.get_ident())
    done = threading.Lock()
    done.acquire()
    trains = threading.get_ident()

    def begins_once_backward_waits():
        while sys._current_frames()[trains].f_code.co_name != "_engine_run_backward":
            time.sleep(0.001)
        projects_the_gradient()

    def projects_the_gradient():
        until = time.monotonic() + AT_MOST
        while sampler.samples < 60 and time.monotonic() < until:
            sum(range(2000))
        done.release()

    sampler.start()
    _thread.start_new_thread(begins_once_backward_waits, ())
    waits["_engine_run_backward"](done)
    assert sampler.stop()["error"] == ""
    samples = [name for name in names if name.startswith(SAMPLE)]
    told = next(name for name in samples if "projects_the_gradient" in name).translate(FROM_SAFE)
    assert told.index("_engine_run_backward") < told.index("projects_the_gradient")
    facts = [dict(fact.split("=") for fact in name.split("#")[1].split(",")[:6]) for name in samples]
    ran = sum(int(each["cpu_us"]) for each in facts)
    assert ran > 2 * sum(int(each["python_us"]) for each in facts)
    assert not any(",holder=" in name for name in samples)
    assert all(",late_us=" in name for name in samples)


def in_backward(wait):
    """The stack of a thread that is in `backward()`, as the sampler sees it."""
    engine: dict = {}
    source = "def _engine_run_backward(wait):\n    return wait()\n"
    exec(compile(source, "/venv/site-packages/torch/autograd/graph.py", "exec"), engine)
    return engine["_engine_run_backward"](wait)


@pytest.mark.parametrize(("start", "found"), [("hidden", False), ("plain", True)])
def test_a_thread_of_ours_that_waits_is_not_autograds(start, found):
    """Neither is begun by `threading`: the pacer of a capture waits so while the program trains."""
    event, begun = threading.Event(), threading.Event()
    idents = []

    def waits():
        idents.append(threading.get_ident())
        begun.set()
        event.wait(AT_MOST)

    if start == "hidden":
        HiddenThread(waits).start()
    else:
        _thread.start_new_thread(waits, ())
    assert begun.wait(AT_MOST)
    here = threading.get_ident()
    ident, inside = autograd_thread(in_backward(lambda: places_of_thread(here)[1:]), idents)
    event.set()
    assert (ident == idents[0], bool(inside)) == (found, found)


def test_a_thread_that_hogs_the_lock_is_not_asked_for_it_promptly(monkeypatch):
    """It would let the training thread have it sooner as well."""
    asked = []

    class Waits:
        works = False

        def wait(self, seconds, prompt, _stat):
            asked.append(prompt)
            return len(asked) > 2

        def look(self, *_):
            return time.perf_counter_ns(), 0, 0, 0, 0, [], ""

    sampler = host_sampler.HostSampler(Extension, threading.get_ident())
    sampler._wait = Waits()
    cpu = iter([{}, {1: 0}, {1: 10**12}])
    monkeypatch.setattr(host_sampler, "cpu_of_threads", lambda: next(cpu))
    monkeypatch.setattr(host_sampler.HostSampler, "_holder", lambda *_: -1)
    sampler._run()
    assert (asked, sampler.error) == ([True, True, False], "")


def followed(choose, *, joins):
    """The words of all stacks that a sampler sees in a thread that joins another one, or works for a while before."""
    names, end = [], threading.Event()

    class Noting(TraceMe):
        def __init__(self, name):
            names.append(name.translate(FROM_SAFE))

    class Recording(Extension):
        profiler = type("Profiler", (), {"TraceMe": Noting})

    def trains():
        end.wait()

    def starts_and_waits():
        until = time.monotonic() + (0 if joins else 1.0)
        while time.monotonic() < until:
            time.sleep(0.002)
        worker.join()

    worker = threading.Thread(target=trains)
    worker.start()
    main = threading.Thread(target=starts_and_waits)
    main.start()
    sampler = host_sampler.HostSampler(Recording, main.ident, 0.001, lambda: choose(main, worker).ident)
    sampler.start()
    until = time.monotonic() + (AT_MOST if joins else 0.5)
    while not any("trains" in name for name in names) and time.monotonic() < until:
        time.sleep(0.002)
    assert sampler.stop()["error"] == ""
    end.set()
    worker.join()
    main.join()
    return [name for name in names if name.startswith(SAMPLE)]


def test_a_thread_that_only_joins_another_is_left_for_the_one_that_trains():
    seen = followed(lambda main, worker: worker, joins=True)
    assert "trains" in seen[-1]
    assert not [name for name in seen if "starts_and_waits" in name][host_sampler.BEFORE_JOINING :]


def test_a_thread_that_works_is_sampled_on():
    seen = followed(lambda main, worker: pytest.fail("it works"), joins=False)
    assert seen and not any("trains" in name for name in seen)
