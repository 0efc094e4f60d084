"""What is beside a profile is never taken for one, and one host's damage never ends the others' analysis."""

import json
import os
import shutil

import pytest

from tests.builders import TraceBuilder
from tests.model.test_gpu import kineto
from tests.report.planted import hlo
from tpuprof.analysis.analyze import analyze_run
from tpuprof.cli.opening import open_report
from tpuprof.decode.find import find
from tpuprof.decode.limited import MAX_CHARACTERS, MAX_MESSAGES, limited
from tpuprof.errors import TpuprofError
from tpuprof.report.labels import host_count


def profile(path, shift=0):
    """A host of five steps; `shift` (us) tells hosts apart."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for step in range(5):
        python.event("train_step", 1000 * step, 950, _r=1, step_num=step)
        trace.tpu(0).line("XLA Modules").event("f(7)", 1000 * step + 100 + shift, 700)
    return trace.write(path)


@pytest.fixture
def session(tmp_path):
    """A session folder with four hosts."""
    folder = tmp_path / "run" / "plugins" / "profile" / "first"
    for number in range(4):
        profile(folder / f"h{number}.xplane.pb", number)
    return folder


HOSTS = ["h0", "h1", "h2", "h3"]


@pytest.mark.parametrize(
    "name",
    [
        "jit_f.hlo_proto.pb",
        "h0.input_pipeline.pb",
        "h0.overview_page.pb",
        "ALL_HOSTS.op_stats.pb",
        "h0.tensorflow_stats.pb",
        "perfetto_trace.json.gz",
        "h0.xplane.pb.bak",
        "h0.xplane.pb~",
        "notes.pb",
        "profile.riegeli",
    ],
)
@pytest.mark.parametrize("content", ["program", "profile", "noise"])
def test_a_neighbour_is_not_a_host(session, name, content):
    if content == "profile":
        shutil.copy(session / "h0.xplane.pb", session / name)
    else:
        (session / name).write_bytes(hlo() if content == "program" else os.urandom(3000))
    found = find(session.parents[2])
    assert sorted(found.files) == HOSTS
    assert analyze_run(session.parents[2]).warnings == []


@pytest.mark.parametrize(
    "stem", ["h0 (copy)", "h0 (1)", "Copy of h0", "h0_copy", "Kopie von h0", "h0 - Kopie", "h0 (copia)"]
)
def test_a_copy_is_left_out_and_named(session, stem):
    name = f"{stem}.xplane.pb"
    shutil.copy(session / "h0.xplane.pb", session / name)
    found = find(session.parents[2])
    assert sorted(found.files) == HOSTS
    assert found.warnings == [f"{name} was left out: it is a copy of h0.xplane.pb"]


@pytest.mark.parametrize("name", ["h9", "h0-1", "h01", "h"])
def test_a_host_with_the_bytes_of_another_is_a_host(session, name):
    shutil.copy(session / "h0.xplane.pb", session / f"{name}.xplane.pb")
    assert sorted(find(session.parents[2]).files) == sorted([*HOSTS, name])


def test_a_host_whose_name_says_more_than_anothers_is_a_host(session):
    shutil.copy(session / "h1.xplane.pb", session / "h0 (copy).xplane.pb")
    assert sorted(find(session.parents[2]).files) == sorted([*HOSTS, "h0 (copy)"])


def test_captures_that_torch_profiler_made_one_after_the_other_are_no_hosts(tmp_path):
    """`schedule(repeat=2)` writes two files for each worker; the newer is the run."""
    for worker in ("vm_17", "vm_18"):
        for made in ("1795445816201381138", "1795445816229344416"):
            path = tmp_path / f"{worker}.{made}.pt.trace.json"
            path.write_text(json.dumps(kineto()), "utf-8")
    found = find(tmp_path)
    assert {host: path.name for host, path in found.files.items()} == {
        worker: f"{worker}.1795445816229344416.pt.trace.json" for worker in ("vm_17", "vm_18")
    }
    assert found.warnings == ["2 older captures of torch.profiler lie beside these, and are left out"]
    # A host may be called by a number.
    assert find(profile(tmp_path / "one" / "vm.1795445816201381138.xplane.pb")).files.keys() == {
        "vm.1795445816201381138"
    }


def test_a_program_alone_is_not_a_profile(tmp_path):
    (tmp_path / "jit_f.pb").write_bytes(hlo())
    with pytest.raises(TpuprofError) as raised:
        find(tmp_path)
    assert raised.value.code == "input-no-trace"


def test_a_damaged_host_is_named_and_the_others_are_analysed(session):
    data = (session / "h2.xplane.pb").read_bytes()
    (session / "h2.xplane.pb").write_bytes(data[: len(data) // 2])
    report = analyze_run(session.parents[2])
    assert report.environment["host_count"] == 3
    assert list(report.environment["unread_hosts"]) == ["h2"]
    assert "input-truncated" in report.environment["unread_hosts"]["h2"]
    assert any(note.startswith("h2: this host is left out.") for note in report.warnings)
    assert {row.host for row in report.steps.per_step} == {"h0", "h1", "h3"}


def _lost(path):
    path.unlink()
    path.symlink_to("nowhere")


def _pipe(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda path: path.write_bytes(b""), "input-empty"),
        (lambda path: path.write_bytes(bytes(5000)), "input-unknown-format"),
        (lambda path: path.write_text("<html>404: not found</html>"), "input-unknown-format"),
        (lambda path: path.write_text("version https://git-lfs.github.com/spec/v1"), "input-unknown-format"),
        (_lost, "input-not-found"),
        (_pipe, "input-unreadable"),
    ],
    ids=["empty", "zeros", "web page", "pointer", "lost", "pipe"],
)
def test_a_host_that_only_its_name_calls_a_profile_is_named(session, damage, code):
    damage(session / "h2.xplane.pb")
    report = analyze_run(session.parents[2])
    assert host_count(report) == "3 of 4 hosts"
    assert code in report.environment["unread_hosts"]["h2"]
    assert {row.host for row in report.steps.per_step} == {"h0", "h1", "h3"}
    # With the cache of reports, too, which looks into every file.
    assert host_count(open_report(session.parents[2])) == "3 of 4 hosts"


def test_a_link_that_may_not_be_followed_ends_nothing(session):
    """As one into a folder that is closed to the user: asking what it is raises an error."""
    (session / "link").symlink_to("x" * 300)
    (session / "h4.xplane.pb").symlink_to("x" * 300)
    assert host_count(analyze_run(session.parents[2])) == "4 of 5 hosts"


def test_damage_beside_a_good_file_of_the_same_host_is_not_a_host(session):
    shutil.copy(session / "h0.xplane.pb", session / "h1.xplane.pb.gz")
    (session / "h1.trace.json.gz").write_bytes(b"")
    (session / "._h1.xplane.pb").write_bytes(b"\0\5\x16\7" + bytes(4000))
    assert host_count(analyze_run(session.parents[2])) == "4 hosts"


def test_a_good_file_of_any_name_is_read_beside_a_damaged_profile(tmp_path):
    profile(tmp_path / "a.xplane.pb").rename(tmp_path / "rank0.pb")
    (tmp_path / "b.xplane.pb").write_bytes(bytes(100))
    assert host_count(analyze_run(tmp_path)) == "1 of 2 hosts"


def test_a_newer_capture_that_holds_no_profile_is_named(session):
    newer = session.parent / "second"
    newer.mkdir()
    (newer / "h0.xplane.pb").write_bytes(bytes(5000))
    assert find(session.parents[2]).warnings == [f"{newer / 'h0.xplane.pb'} is newer, and holds no profile"]
    os.utime(newer / "h0.xplane.pb", (1, 1))
    assert find(session.parents[2]).warnings == []


def test_where_no_host_can_be_read_the_reason_is_raised(session):
    for path in session.iterdir():
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(TpuprofError) as raised:
        analyze_run(session.parents[2])
    assert raised.value.code == "input-truncated"


def test_messages_of_a_profile_are_few_short_and_printable():
    shown = limited(["a\x1b[31m\x07", *(f"{n} " + "x" * 1000 for n in range(100)), "a\x1b[31m\x07"])
    assert len(shown) == MAX_MESSAGES + 1
    assert shown[0] == "a\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}"
    assert all(len(each) <= MAX_CHARACTERS + 1 and each.isprintable() for each in shown)
    assert shown[-1] == f"{101 - MAX_MESSAGES} more messages were left out"
