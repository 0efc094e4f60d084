"""Compile workers: limits, crashes, the cache. A shell script stands in for Python, so nothing heavy runs."""

import json
import stat
import time
from pathlib import Path

import pytest

from tests.preflight import programs
from tpuprof.errors import Code, TpuprofError
from tpuprof.preflight.compiler import CompileOptions, cache_key, compile_all
from tpuprof.preflight.targets import parse_target

V5E = parse_target("v5e-4")
VERSIONS = '{"jax": "1", "jaxlib": "1", "libtpu": "1"}'


def worker(tmp_path: Path, body: str) -> str:
    """A command that answers the question for versions and else runs `body` with the job's folder in $DIR."""
    path = tmp_path / "python"
    path.write_text(
        f"#!/bin/sh\nif [ \"$1\" = -c ]; then echo '{VERSIONS}'; exit 0; fi\n"
        f'DIR=$(dirname "$3")\necho run >> {tmp_path}/runs\n{body}\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def compiled(python: str, **options: object) -> list[object]:
    said: list[str] = []
    results = compile_all([(programs.graph(), V5E)], CompileOptions(python=python, **options), said.append)
    assert len(said) == 1
    return results


REFUSE = """echo '{"status": "out-of-memory", "error": "RESOURCE_EXHAUSTED", "compile_seconds": 2.5}' > $DIR/result.json"""


def test_a_worker_that_takes_too_long_is_ended(tmp_path):
    result = compiled(worker(tmp_path, "sleep 600"), time_limit_s=0.3)[0]
    assert result.status == "time-limit"
    assert "--time-limit" in result.error


def test_a_worker_that_takes_too_much_memory_is_ended(tmp_path):
    result = compiled(worker(tmp_path, "sleep 600"), memory_limit=1)[0]
    assert result.status == "memory-limit"


def test_a_crash_shows_the_workers_last_words(tmp_path):
    result = compiled(worker(tmp_path, "echo 'F0000 check failed' >&2; exit 134"))[0]
    assert result.status == "crashed"
    assert "exit 134: F0000 check failed" in result.error


def test_a_signal_is_named(tmp_path):
    result = compiled(worker(tmp_path, "kill -ABRT $$"))[0]
    assert result.status == "crashed"
    assert "SIGABRT" in result.error


def test_an_interruption_ends_the_compilers_at_once(tmp_path):
    def interrupt(_text: str) -> None:
        # One of two compiles is done, whichever it is: the other runs.
        raise KeyboardInterrupt

    python = worker(tmp_path, f"if mkdir {tmp_path}/taken; then exit 1; fi; sleep 600")
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        compile_all([(programs.graph(), V5E)] * 3, CompileOptions(python=python, workers=2), interrupt)
    # Far below the 600 s that the second would take.
    assert time.monotonic() - started < 60


def test_results_are_kept_by_graph_target_flags_and_versions(tmp_path, monkeypatch):
    python, cache = worker(tmp_path, REFUSE), tmp_path / "cache"
    first = compiled(python, cache=cache)[0]
    second = compiled(python, cache=cache)[0]
    assert (first.cached, second.cached) == (False, True)
    assert (second.status, second.seconds) == ("out-of-memory", 2.5)
    assert (tmp_path / "runs").read_text() == "run\n"
    compiled(python, cache=cache, environment={"LIBTPU_INIT_ARGS": "--x"})
    assert (tmp_path / "runs").read_text() == "run\nrun\n"


def test_a_damaged_cache_entry_is_compiled_again(tmp_path):
    python, cache = worker(tmp_path, REFUSE), tmp_path / "cache"
    compiled(python, cache=cache)
    next(cache.glob("*/result.json")).write_text("{")
    assert compiled(python, cache=cache)[0].cached is False
    assert compiled(python, cache=cache)[0].cached is True


def test_crashes_are_not_kept(tmp_path):
    python = worker(tmp_path, "exit 1")
    compiled(python, cache=tmp_path / "cache")
    compiled(python, cache=tmp_path / "cache")
    assert (tmp_path / "runs").read_text() == "run\nrun\n"


def test_the_key_changes_with_what_changes_the_result():
    options, versions = CompileOptions(), json.loads(VERSIONS)
    graph = programs.graph()
    keys = {
        cache_key(graph, V5E, options, versions),
        cache_key(programs.graph(donors=[0]), V5E, options, versions),
        cache_key(graph, parse_target("v5e-8"), options, versions),
        cache_key(graph, V5E, CompileOptions(environment={"XLA_FLAGS": "--a"}), versions),
        cache_key(graph, V5E, options, {**versions, "libtpu": "2"}),
    }
    assert len(keys) == 5


def test_without_a_compiler_the_extra_is_named(tmp_path):
    path = tmp_path / "python"
    path.write_text('#!/bin/sh\necho \'{"jax": "", "jaxlib": "", "libtpu": ""}\'\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(TpuprofError) as caught:
        compile_all([(programs.graph(), V5E)], CompileOptions(python=str(path)), print)
    assert caught.value.code is Code.MISSING_EXTRA


EACH = """for JOB in "$@"; do case $JOB in *job.json) D=$(dirname $JOB); BODY; esac; done"""
ANSWER = """echo '{"status": "out-of-memory", "error": "RESOURCE_EXHAUSTED", "compile_seconds": 0.1}' > $D/result.json"""


def several(python: str, count: int) -> list[object]:
    jobs = [(programs.graph(donors=[number]), V5E) for number in range(count)]
    return compile_all(jobs, CompileOptions(python=python), lambda _: None)


@pytest.mark.parametrize(("count", "processes"), [(4, 4), (5, 1), (100, 1), (101, 2)])
def test_many_small_programs_share_a_process(tmp_path, count, processes):
    results = several(worker(tmp_path, EACH.replace("BODY", ANSWER)), count)
    assert [each.graph.donors for each in results] == [[number] for number in range(count)]
    assert {each.status for each in results} == {"out-of-memory"}
    assert len((tmp_path / "runs").read_text().splitlines()) == processes


def test_a_crash_among_small_programs_leaves_the_others_their_results(tmp_path):
    crash = f"""if grep -q '"donors": .2' $JOB; then exit 134; fi; {ANSWER}"""
    results = several(worker(tmp_path, EACH.replace("BODY", crash)), 5)
    assert [each.status for each in results] == [*["out-of-memory"] * 2, "crashed", *["out-of-memory"] * 2]
    # The one that they share, and one each for the program that crashed it and those that came after.
    assert len((tmp_path / "runs").read_text().splitlines()) == 4
