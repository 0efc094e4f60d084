"""The merged report is that of all files in one process, in whatever order and parts the summaries come."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import TraceBuilder
from tests.model.test_host_exchanges import waiting
from tests.model.test_read_graphs import trace_of as reading_the_loss
from tests.pod.pods import trace
from tests.storage.conftest import _moto, s3  # noqa: F401
from tpuprof import parallel
from tpuprof.analysis import processes
from tpuprof.analysis.analyze import analyze_run
from tpuprof.analysis.sections.hosts import WAITS_LISTED_UP_TO
from tpuprof.decode.find import Found
from tpuprof.errors import Code, TpuprofError
from tpuprof.model.barriers import Barriers
from tpuprof.model.compile.recurrence import AfterCapture, CompilingLine, Stage
from tpuprof.model.host.eager_mode import EagerOps
from tpuprof.model.host.handing_over import HandingOver
from tpuprof.model.host.unnamed import Unnamed
from tpuprof.pod import pack, squeeze
from tpuprof.pod.analyze import POD_FROM, analyze_pod, sampled, what_is_missed
from tpuprof.pod.execute import summarise_all
from tpuprof.pod.hosts import hosts_found, hosts_of, summarise_host
from tpuprof.pod.merge import Asked, merge
from tpuprof.pod.ops import SUMS
from tpuprof.pod.pack import from_bytes, to_bytes
from tpuprof.pod.related import apart, together
from tpuprof.pod.summary import BARRIERS_KEPT, Told
from tpuprof.report.as_json import to_json
from tpuprof.report.labels import host_count
from tpuprof.report.load import report_from
from tpuprof.run_folder import NOTES, aftermath_name

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
# Sections that are of all hosts, as those of all files in one process.
OF_ALL = (
    "steps", "breakdown", "hosts", "goodput", "tracing_hidden_ms_per_step", "ops_left_out", "op_groups", "sources",
    "compute", "collectives", "offload", "collective_layers", "memory", "host_reads", "tracing", "input", "annotations",
    "host_stacks", "threads", "fallbacks", "compilation_cache", "throughput", "loops",
)  # fmt: skip
# What docs/pods.md says is otherwise; ops have no row for each device, and one warning stands for several hosts.
OTHERWISE = {"findings", "measure_next", "ops", "pod", "warnings"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Six hosts, of which h3 is late, and a sample capture as another."""
    folder = tmp_path_factory.mktemp("pod") / "plugins" / "profile" / "x"
    folder.mkdir(parents=True)
    for row in range(6):
        late = (300, 300) if row == 3 else (10 * row, 300)
        path = folder / f"h{row}.xplane.pb"
        path.write_bytes(trace(late, chips=2).space.SerializeToString())
    sample = next((SAMPLES / "recompile_shapes").rglob("*.xplane.pb"))
    shutil.copy(sample, folder / "sample.xplane.pb")
    return folder


@pytest.fixture(scope="module")
def packed(files):
    return {job.name: summarise_host(job) for job in hosts_of(files).jobs}


def merged(packed, names, failed=None):
    asked = Asked(len(names) + len(failed or {}), failed or {}, {}, [])
    return merge([from_bytes(packed[name]) for name in names], asked)


def test_the_merged_report_is_that_of_all_files_in_one_process(files, packed):
    whole, parts = analyze_run(files).to_dict(), merged(packed, list(packed)).to_dict()
    for name in OF_ALL:
        assert parts[name] == whole[name], name
    for here, there in zip(parts["ops"], whole["ops"], strict=True):
        # A row for each device of a thousand hosts is too much: a pod says how many hosts run an op.
        own = {"cores": [], "hosts": here["hosts"], "host_names": here["host_names"]}
        assert here == {**there, **own}
        devices = {core["device"].partition(" of ")[2] for core in there["cores"]}
        assert here["hosts"] == len(devices)
        assert here["host_names"] == sorted(devices)[:2]
    assert parts["verdict"] == whole["verdict"]
    assert "It is unknown whether compiles come again." in parts["verdict"]["sentence"]
    assert parts["compiles"] == whole["compiles"]
    assert parts["steadiness"]["outliers"] == whole["steadiness"]["outliers"]
    assert parts["environment"] == whole["environment"]
    # A report that says nothing else of many hosts than of one would be a list that was forgotten above.
    differ = {name for name in whole if parts[name] != whole[name]}
    assert differ <= OTHERWISE


@settings(max_examples=25)
@given(data=st.data())
def test_order_and_partition_change_nothing(packed, data):
    names = data.draw(st.permutations(sorted(packed)))
    cut = data.draw(st.integers(0, len(names)))
    # Each part is packed again, as by another process.
    parts = [[to_bytes(from_bytes(packed[name])) for name in part] for part in (names[:cut], names[cut:])]
    whole = dict(zip(names, [each for part in parts for each in part], strict=True))
    assert to_json(merged(whole, names)) == to_json(merged(packed, sorted(packed)))


def test_a_summary_comes_back_as_it_was(packed):
    for data in packed.values():
        found, again = from_bytes(data), from_bytes(to_bytes(from_bytes(data)))
        assert found.steps.number.tolist() == again.steps.number.tolist()
        assert found.report == again.report
        assert {name: each.tolist() for name, each in found.parts.items()} == {
            name: each.tolist() for name, each in again.parts.items()
        }
        assert found.barriers.spent.tolist() == again.barriers.spent.tolist()


@given(
    numbers=st.lists(st.integers(-(2**62), 2**62) | st.integers(-130, 130), max_size=40),
    scale=st.sampled_from([1, 3, 1000]),
)
def test_a_column_comes_back_as_it_was(numbers, scale):
    column = np.array([number // scale * scale for number in numbers], np.int64)
    array, found = pack._packed("part.compute", column)
    assert array.dtype == np.uint8
    again = pack._unpacked("part.compute", array, found)
    assert again.dtype == np.int64
    assert again.tolist() == column.tolist()
    growing = np.cumsum(np.abs(column) % 2**40)
    assert pack._unpacked("barrier.end", *pack._packed("barrier.end", growing)).tolist() == growing.tolist()


# Times of steps in which a thread waits or works, with parts of any kind; `busy` as nothing says it.
_TIMES = st.integers(-(2**40), 2**40) | st.just(0)


@given(data=st.data(), steps=st.integers(0, 12), ops=st.integers(0, 12))
def test_what_other_columns_tell_comes_back_as_it_was(data, steps, ops):
    """Also where steps overlap, parts do not add up, and a clock is unknown (-1)."""
    names = [
        "start",
        "end",
        "part.compute",
        "part.tracing",
        "column.busy",
        "column.host_work",
        "column.waited",
    ]
    names = names[: data.draw(st.sampled_from([7, 2]))]
    columns = {name: data.draw(st.lists(_TIMES, min_size=steps, max_size=steps)) for name in names}
    if len(names) > 2:
        columns |= {f"op.{name}": data.draw(st.lists(_TIMES, min_size=ops, max_size=ops)) for name in SUMS}
    whole = {name: np.array(numbers, np.int64) for name, numbers in columns.items()}
    found = together(*apart(whole, pack._room))
    assert {name: each.tolist() for name, each in found.items()} == columns


def test_what_other_columns_tell_takes_no_room():
    """Steps that follow each other, whose parts add up, of a thread that works where it does not wait."""
    noise = np.random.default_rng(1)
    end = np.cumsum(noise.integers(10**9, 10**10, 1000))
    start = np.append(0, end[:-1])
    compute, waited, own = noise.integers(0, 10**9, (3, 1000))
    columns = {"start": start, "end": end, "part.compute": compute, "part.tracing": end - start - compute}
    columns |= {"column.busy": compute, "column.waited": waited, "column.host_work": end - start - waited}
    columns |= dict.fromkeys(("op.self_ps", "op.total_ps", "op.step_ps", "op.clock_ps"), own)
    found, told = apart(columns, pack._room)
    assert {name for name in columns if not found[name].any()} == {
        "start", "part.tracing" if "part.tracing" in told else "part.compute", "column.busy", "column.host_work",
        "op.total_ps", "op.step_ps", "op.clock_ps",
    }  # fmt: skip


def test_where_others_tell_nothing_of_a_column_it_stays():
    """Containers, whose time is that of the ops in them, on a device that states no clock."""
    noise = np.random.default_rng(1)
    own, total = noise.integers(0, 10**9, (2, 1000))
    columns = {"start": np.empty(0, np.int64), "end": np.empty(0, np.int64), "op.self_ps": own}
    columns |= {"op.total_ps": total, "op.clock_ps": np.full(1000, -1)}
    assert apart(columns, pack._room)[1] == []


def test_a_python_without_lzma_packs_and_says_what_it_cannot_read(monkeypatch):
    data = b"layers.1/attention" * 100
    small = squeeze.squeezed(data)
    assert len(small) < len(data)
    assert squeeze.unsqueezed(small) == data
    monkeypatch.setattr(squeeze, "lzma", None)
    assert squeeze.unsqueezed(squeeze.squeezed(data)) == data
    with pytest.raises(ValueError, match="lzma"):
        squeeze.unsqueezed(small)
    for damaged in (b"", b"no", small[:-30]):
        with pytest.raises(ValueError):
            squeeze.unsqueezed(damaged)


def test_whole_nanoseconds_take_half_the_room():
    """A step of a few milliseconds in ps needs eight bytes, in ns four; of a thousandth more it is none."""
    times = (7_654_321 + np.arange(1000)) * 1000
    assert pack._packed("part.compute", times)[0].nbytes == 4_000
    assert pack._packed("part.compute", times + np.arange(1000))[0].nbytes == 8_000


def test_the_report_reads_back(packed):
    report = merged(packed, list(packed))
    assert report_from(json.loads(to_json(report))) == report


def test_groups_stragglers_and_rules(packed):
    report = merged(packed, list(packed))
    pod = report.pod
    assert pod is not None
    assert [(row.hosts, row.bound) for row in pod.groups][-1] == (1, "compile")
    assert pod.groups[0].hosts == 6 or sum(row.hosts for row in pod.groups) == 7
    late = pod.stragglers[0]
    assert (late.host, late.chip) == ("h3", "/device:TPU:1")
    # The middle of six hosts is 20 us late itself.
    assert late.lag_ms_per_step == pytest.approx(0.28, rel=0.05)
    failed = [each.rule for each in report.findings if each.status == "failed"]
    assert "straggler-host" in failed
    assert all(
        "of 7 hosts" in each.title
        for each in report.findings
        if each.status == "failed" and each.rule != "straggler-host"
    )


def test_a_damaged_host_is_named_and_the_rest_is_analysed(files, tmp_path):
    folder = tmp_path / "plugins" / "profile" / "x"
    shutil.copytree(files, folder)
    whole = (folder / "h1.xplane.pb").read_bytes()
    (folder / "h1.xplane.pb").write_bytes(whole[: len(whole) // 2])
    report = analyze_pod(folder)
    assert report.pod is not None
    assert list(report.pod.failed) == ["h1"]
    assert "input-truncated" in report.pod.failed["h1"]
    assert report.pod.analyzed == 6
    assert any(each.startswith("h1: this host is left out.") for each in report.warnings)


def test_where_no_host_can_be_read_that_is_an_error(tmp_path):
    (tmp_path / "a.xplane.pb").write_bytes(b"\x0a\xff")
    found = Found({"a": tmp_path / "a.xplane.pb"}, None)
    with pytest.raises(TpuprofError) as caught:
        analyze_pod(hosts_found(found))
    assert caught.value.code is Code.NO_TRACE
    assert str(caught.value).count("[") == 1


def test_a_defect_met_in_all_hosts_is_one():
    failed = {"a": str(TpuprofError(Code.INTERNAL, "TypeError: no.", "Please report this."))}
    with pytest.raises(TpuprofError) as caught:
        merge([], Asked(1, failed, {}, []))
    assert str(caught.value) == (
        "none of 1 hosts could be read: TypeError: no. Please report this. [internal-error]"
    )


def test_a_sample_says_what_it_may_miss(files):
    report = analyze_pod(files, sample=3)
    assert report.pod is not None
    assert (report.pod.analyzed, report.pod.hosts) == (3, 7)
    assert "3 of 7 hosts" in report.pod.sampled
    assert "57%" in report.pod.sampled
    assert what_is_missed(7, 7) == ""


def test_samples_are_spread_and_hold_both_ends(files):
    jobs = hosts_of(files).jobs
    assert [each.name for each in sampled(jobs, 3)] == ["h0", "h3", "sample"]
    assert sampled(jobs, 0) == jobs
    assert sampled(jobs, 99) == jobs


def test_what_is_no_summary_is_refused(packed):
    import io

    evil = io.BytesIO()
    np.savez(evil, header=np.array([{"a": 1}], dtype=object))
    for data in (b"", b"PK", evil.getvalue(), next(iter(packed.values()))[:-200]):
        with pytest.raises(TpuprofError) as caught:
            from_bytes(data)
        assert caught.value.code is Code.CORRUPT


@pytest.mark.parametrize("first", ["h1", "h2", "sample"])
def test_a_process_that_dies_again_and_again_is_named_and_no_other(files, first):
    """Whichever host stands in the pool beside the one that kills its reader, and waits there to be lost with it."""
    jobs = hosts_of(files).jobs
    at = next(row for row, job in enumerate(jobs) if job.name == first)
    done = {each.name: each for each in summarise_all([*jobs[at:], *jobs[:at]], work=_dies_at_h2)}
    assert done["h2"].summary is None
    assert "died" in done["h2"].why
    assert {name for name, each in done.items() if each.summary == b"fine"} == {
        "h0", "h1", "h3", "h4", "h5", "sample",
    }  # fmt: skip


def test_a_pool_that_breaks_as_a_host_is_given_to_it_loses_none(files, monkeypatch):
    submit, tasks = processes.ProcessPoolExecutor.submit, []

    def breaks_once(pool, *task):
        tasks.append(task)
        if len(tasks) == 2:
            raise OSError("handle is closed")
        return submit(pool, *task)

    monkeypatch.setattr(processes.ProcessPoolExecutor, "submit", breaks_once)
    monkeypatch.setattr(parallel, "threads", lambda: 2)
    jobs = hosts_of(files).jobs
    assert {each.name for each in summarise_all(jobs, work=_fine) if each.summary == b"fine"} == {
        job.name for job in jobs
    }


def _fine(_job):
    return b"fine"


def _dies_at_h2(job):
    import os
    import signal

    if job.name == "h2":
        os.kill(os.getpid(), signal.SIGKILL)
    return b"fine"


def test_many_collectives_are_thinned_alike_on_all_hosts():
    from tpuprof.pod.summary import _thinned

    steps, ops = 40, 500
    columns = [np.repeat(np.arange(steps), ops), np.tile(np.arange(ops), steps)]
    rest = [np.zeros(steps * ops, np.int64)] * 5
    kept = _thinned(Barriers(tuple(f"r{each}" for each in range(ops)), *columns, *rest))
    assert 0 < len(kept) <= BARRIERS_KEPT
    each_step = [kept.op[kept.step == step].tolist() for step in range(steps)]
    assert all(each == each_step[0] for each in each_step)


@pytest.mark.parametrize(("ops", "occurrences"), [(2_083, 1), (1, 2_083), (40, 52)])
@pytest.mark.parametrize("steps", [4, 18, 20, 37])
def test_whatever_the_number_of_collectives_few_are_kept_and_the_same(ops, occurrences, steps):
    """At a seventh of them all were kept; hosts of other numbers of steps had hardly any in common."""
    from tpuprof.pod.summary import _thinned

    def kept(steps):
        per_step = ops * occurrences
        columns = [
            np.repeat(np.arange(steps), per_step),
            np.tile(np.repeat(np.arange(ops), occurrences), steps),
            np.tile(np.arange(occurrences), steps * ops),
        ]
        rest = [np.zeros(steps * per_step, np.int64)] * 4
        found = _thinned(Barriers(tuple(f"r{each}" for each in range(ops)), *columns, *rest))
        return len(found), set(zip(found.op.tolist(), found.occurrence.tolist(), strict=True))

    count, kinds = kept(steps)
    assert BARRIERS_KEPT / 2.5 < count <= BARRIERS_KEPT
    fewer, same = kept(steps + 3)
    assert BARRIERS_KEPT / 2.5 < fewer <= BARRIERS_KEPT
    assert same <= kinds


def test_collectives_that_are_few_stay_whole():
    from tpuprof.pod.summary import _thinned

    columns = [np.arange(BARRIERS_KEPT)] + [np.zeros(BARRIERS_KEPT, np.int64)] * 6
    assert len(_thinned(Barriers(("all-reduce.1",), *columns))) == BARRIERS_KEPT


def test_many_hosts_are_a_pod_for_every_command(files, tmp_path):
    from tpuprof.cli.opening import MANY_HOSTS, open_json, open_report

    assert MANY_HOSTS == POD_FROM
    folder = tmp_path / "plugins" / "profile" / "x"
    folder.mkdir(parents=True)
    for row in range(POD_FROM):
        (folder / f"n{row:03}.xplane.pb").symlink_to(files / f"h{row % 6}.xplane.pb")
    report = open_report(tmp_path)
    assert report.pod is not None
    assert report.pod.analyzed == POD_FROM
    assert json.loads(open_json(tmp_path))["pod"]["groups"] == report.to_dict()["pod"]["groups"]


def test_a_pod_in_a_bucket_is_named_by_its_urls(files, s3):  # noqa: F811
    for path in sorted(files.iterdir()):
        data = path.read_bytes()
        s3(
            f"run/plugins/profile/x/{path.name}",
            data[: len(data) // 2] if path.name.startswith("h1") else data,
        )
    report = analyze_pod("s3://pods/run")
    here = analyze_pod(files)
    assert report.pod is not None
    assert here.pod is not None
    assert report.source["files"][0] == "s3://pods/run/plugins/profile/x/h0.xplane.pb"
    assert "s3://pods/run/plugins/profile/x/h1.xplane.pb" in report.pod.failed["h1"]
    text = to_json(report)
    assert "/dev/shm" not in text
    assert [row.host for row in report.pod.stragglers] == [row.host for row in here.pod.stragglers]


@pytest.mark.parametrize(
    "stated", [{}, {"dcn_collective_info": b"\x08\x01"}], ids=["either", "between slices"]
)
def test_the_merged_verdict_names_the_op_and_the_slices_as_that_of_all_files_does(tmp_path, stated):
    folder = tmp_path / "plugins" / "profile" / "x"
    folder.mkdir(parents=True)
    for row in range(3):
        waiting(**stated).write(folder / f"h{row}.xplane.pb")
    said = analyze_run(folder).verdict.sentence
    assert "between slices" in said or "It is recv-done.4 at train.py:9." in said
    assert merged_verdict(folder) == said


@pytest.mark.parametrize("hosts", [WAITS_LISTED_UP_TO, WAITS_LISTED_UP_TO + 1])
def test_the_merged_verdict_names_the_host_that_is_waited_for(tmp_path, hosts):
    """Also of more hosts than those whose waits are listed one by one."""
    folder = tmp_path / "plugins" / "profile" / "x"
    folder.mkdir(parents=True)
    for row in range(hosts):
        trace((300 * (row == 3), 300)).write(folder / f"h{row}.xplane.pb")
    assert " % of that is a wait for h3, which comes last, and no communication." in merged_verdict(folder)


def test_the_merged_verdict_knows_work_that_is_done_again(tmp_path):
    folder = tmp_path / "plugins" / "profile" / "x"
    folder.mkdir(parents=True)
    for row in range(3):
        reading_the_loss().write(folder / f"h{row}.xplane.pb")
    said = analyze_run(folder).verdict.sentence
    assert "computes the same again" in said
    assert merged_verdict(folder) == said


@pytest.mark.parametrize(("seconds", "said"), [(30.0, True), (0.045, False)])
def test_the_merged_verdict_knows_what_came_after_the_capture(tmp_path, seconds, said):
    """Of one host alone, whose later steps took 1 s each where the captured ones took a millisecond; or 1.5 ms."""
    folder = tmp_path / "plugins" / "profile" / "x"
    folder.mkdir(parents=True)
    for row in range(3):
        (folder / f"h{row}.xplane.pb").write_bytes(trace().space.SerializeToString())
    after = {
        "steps": 30,
        "compiling_steps": 0,
        "graphs": 0,
        "seconds": 0.0,
        "wall_seconds": seconds,
        "ended": True,
    }
    (tmp_path / NOTES).mkdir()
    (tmp_path / NOTES / aftermath_name("h2.1")).write_text(json.dumps(after), "utf-8")
    whole = analyze_run(tmp_path)
    assert ("is not in this capture" in whole.verdict.sentence) == said
    assert merged_verdict(tmp_path) == whole.verdict.sentence


def test_what_the_verdict_says_of_a_host_comes_back_as_it_was(packed):
    line = CompilingLine(2, 3, 1.5, ["train (a.py:7)"], [4, 9])
    told = Told(
        AfterCapture(
            30, 1, 2, 3.0, 4.0, True, {"a.py:7": line}, lengths={120: 29, 160: 1}, stages=[Stage(0, 4, 0.5)]
        ),
        HandingOver(9, 5, "an event", 4),
        EagerOps(700.0, True),
        12,
        Unnamed(8, "another event", 7),
        True,
    )
    found = from_bytes(packed["h0"])
    assert found.told == Told()
    assert from_bytes(to_bytes(replace(found, told=told))).told == told


@pytest.mark.parametrize("ranks", [False, True])
def test_a_pod_counts_its_machines(tmp_path, ranks):
    folder = tmp_path / "plugins" / "profile" / "x"
    folder.mkdir(parents=True)
    for row in range(4):
        name = f"vm{row // 2}-p{row}" if ranks else f"vm{row}"
        (folder / f"{name}.xplane.pb").write_bytes(trace().space.SerializeToString())
    report = analyze_pod(folder)
    assert report.environment == analyze_run(folder).environment
    assert host_count(report) == ("4 processes of 2 hosts" if ranks else "4 hosts")


def test_hosts_of_another_program_are_no_stragglers_of_this_one(tmp_path):
    """Of two programs without a collective in common, the slower one held up the other by its whole step."""
    folder = tmp_path / "plugins" / "profile" / "x"
    folder.mkdir(parents=True)
    for row, sample in enumerate(["decoder_loop"] * 3 + ["input_starved"] * 2):
        shutil.copy(next((SAMPLES / sample).rglob("*.xplane.pb")), folder / f"h{row}.xplane.pb")
    report = analyze_pod(folder)
    assert report.hosts == analyze_run(folder).hosts
    assert report.hosts.straggler == ""
    assert "run another program: h3, h4" in report.hosts.clocks


def test_what_is_said_of_hosts_that_differ_is_said_of_a_pod_too(tmp_path):
    folder = tmp_path / "plugins" / "profile" / "x"
    folder.mkdir(parents=True)
    for row, sample in enumerate(["decoder_loop", "decoder_loop", "input_starved"]):
        shutil.copy(next((SAMPLES / sample).rglob("*.xplane.pb")), folder / f"h{row}.xplane.pb")

    def unlike(report):
        return [
            each
            for each in report.warnings
            if each.startswith(("hosts run", "devices are not equally busy: those"))
        ]

    said = unlike(analyze_run(folder))
    assert len(said) == 2
    assert unlike(analyze_pod(folder)) == said
    packed = {job.name: summarise_host(job) for job in hosts_of(folder).jobs}
    assert unlike(merged(packed, ["h0", "h1"])) == []


def merged_verdict(folder):
    packed = {job.name: summarise_host(job) for job in hosts_of(folder).jobs}
    return merged(packed, list(packed)).verdict.sentence


def test_what_the_programs_counted_is_summed_over_hosts(tmp_path):
    """Ops on the CPU, samples and the compilation cache were those of one host."""
    folder = tmp_path / "plugins" / "profile" / "x"
    folder.mkdir(parents=True)
    (tmp_path / NOTES).mkdir()
    for row in range(3):
        (folder / f"h{row}.xplane.pb").write_bytes(trace().space.SerializeToString())
        counters = {"PersistentCacheHit": row, "PersistentCacheMiss": 1}
        fell_back = {
            "counters": {"aten::nonzero": 2, **counters},
            "fallbacks": {"aten::nonzero": "mask.py:5"},
        }
        lines = [
            {
                "step": step,
                "wall_ns": 10**6 * (row + 1),
                "captured": True,
                "compiles": [],
                "samples": 8 * (row + 1),
            }
            | (fell_back if row == 2 else {"counters": counters})
            for step in range(5)
        ]
        text = "\n".join(map(json.dumps, lines))
        (tmp_path / NOTES / f"telemetry.h{row}.{row}.jsonl").write_text(text, "utf-8")
    whole, parts = analyze_run(tmp_path), analyze_pod(tmp_path)
    assert parts.throughput.samples_per_step == 8 + 16 + 24
    assert [(each.op, each.source, each.per_step) for each in parts.fallbacks] == [
        ("aten::nonzero", "mask.py:5", 10 / 15)
    ]
    assert (parts.compilation_cache.hits, parts.compilation_cache.misses) == (15, 15)
    for name in ("throughput", "fallbacks", "compilation_cache", "verdict", "steadiness"):
        assert getattr(parts, name) == getattr(whole, name), name


@pytest.mark.parametrize("device", [True, False], ids=["a window", "no device"])
def test_a_host_without_steps_beside_others_changes_no_mean(tmp_path, device):
    """Its one window is its whole capture, or its trace shows no device: its ops and its tracing are in no step."""
    folder = tmp_path / "plugins" / "profile" / "x"
    folder.mkdir(parents=True)
    for row in range(3):
        (folder / f"h{row}.xplane.pb").write_bytes(trace().space.SerializeToString())
    built = TraceBuilder() if device else trace(chips=0)
    built.host().line("python").event("StepMarker", 0, 10)
    if device:
        built.tpu(0).line("XLA Modules").event("g(2)", 0, 900)
        built.tpu(0).line("XLA Ops").event("fusion.9", 0, 900)
    built.write(folder / "h9.xplane.pb")
    whole, parts = analyze_run(tmp_path).to_dict(), analyze_pod(tmp_path).to_dict()
    assert parts["verdict"] == whole["verdict"]
    for name in ("compute", "op_groups", "tracing", "annotations", "breakdown", "host_stacks", "threads"):
        assert parts[name] == whole[name], name
