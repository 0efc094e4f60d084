"""A search ends within bounds that no run folder meets, and what is called a profile and is a folder is named."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.decode.test_neighbours import profile
from tpuprof.analysis.analyze import analyze_run
from tpuprof.decode import find as finding
from tpuprof.decode import folder_walk, sniff
from tpuprof.decode.find import find
from tpuprof.errors import TpuprofError
from tpuprof.report.labels import host_count


@pytest.fixture
def session(tmp_path):
    """A session of two hosts in a run folder."""
    folder = tmp_path / "run" / "plugins" / "profile" / "first"
    for number in range(2):
        profile(folder / f"h{number}.xplane.pb", number)
    return folder


def test_a_folder_of_too_many_files_is_refused_with_the_newest_profile(session, monkeypatch):
    run = session.parents[2]
    monkeypatch.setattr(folder_walk, "MAX_LISTED", 4)
    with pytest.raises(TpuprofError) as raised:
        find(run)
    assert raised.value.code == "input-too-many-files"
    assert f"5 files and folders were listed, as far as {session}" in raised.value.message
    assert "2 are called profiles, the newest is" in raised.value.message
    assert str(session) in raised.value.message
    assert "plugins/profile" in raised.value.hint
    monkeypatch.setattr(folder_walk, "MAX_LISTED", 5)
    assert sorted(find(run).files) == ["h0", "h1"]


def test_a_search_that_takes_too_long_is_refused(session, monkeypatch):
    monkeypatch.setattr(folder_walk, "MAX_SECONDS", -1.0)
    with pytest.raises(TpuprofError) as raised:
        find(session.parents[2])
    assert raised.value.code == "input-too-many-files"


def test_data_beside_a_run_takes_nothing_from_it(session, monkeypatch):
    """Files of other names are looked into up to a limit; a file called a profile is read in any case."""
    run = session.parents[2]
    for number in range(4):
        (run / f"a{number}.bin").write_bytes(b"data")
    monkeypatch.setattr(finding, "MAX_LOOKED_INTO", 4)
    assert find(run).warnings == []
    monkeypatch.setattr(finding, "MAX_LOOKED_INTO", 3)
    found = find(run)
    assert sorted(found.files) == ["h0", "h1"]
    assert found.warnings == [f"1 of 4 files below {run} that are not called profiles were not looked at"]
    for each in session.iterdir():
        each.unlink()
    with pytest.raises(TpuprofError) as raised:
        find(run)
    assert raised.value.code == "input-too-many-files"
    assert "4 files were listed, and 3 of them looked into" in raised.value.message


def test_a_pod_of_1024_hosts_is_far_from_the_limits(tmp_path):
    session = tmp_path / "run" / "deep" / "er" / "plugins" / "profile" / "first"
    one = profile(session / "h0.xplane.pb")
    notes = tmp_path / "run" / "deep" / "er" / "tpuprof"
    notes.mkdir()
    for number in range(1, 1024):
        os.link(one, session / f"h{number}.xplane.pb")
        for name in ("run", "telemetry", "metrics", "after", "pt_xla_debug"):
            (notes / f"{name}.h{number}.0.txt").touch()
    found = find(tmp_path)
    assert len(found.files) == 1024
    assert found.warnings == []
    listed = sum(1 for _ in tmp_path.rglob("*"))
    assert listed * 10 < folder_walk.MAX_LISTED
    assert listed < finding.MAX_LOOKED_INTO


@pytest.mark.skipif(not Path("/proc/kmsg").exists(), reason="no /proc")
def test_files_of_the_kernel_are_not_read():
    """`/proc/kmsg` waits for the kernel's next message."""
    code = f"from pathlib import Path; from tpuprof.decode import sniff; print(sniff.sniff(Path('/proc/kmsg')) == {sniff.EMPTY!r})"
    done = subprocess.run([sys.executable, "-c", code], timeout=60, check=True, capture_output=True)
    assert done.stdout == b"True\n"


def test_what_shows_the_kernel_is_not_gone_into(tmp_path, monkeypatch):
    for name in ("proc", "my run", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"21 1 0:5 / {tmp_path}/proc rw shared:1 - proc proc rw\n"
        f"22 1 0:6 / {tmp_path}/my\\040run rw - sysfs sysfs rw\n"
        f"23 1 0:7 / {tmp_path}/other rw - fuse.gcsfuse bucket rw\n"
        "short\n"
    )
    monkeypatch.setattr(folder_walk, "_MOUNTS", mounts)
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path, Path(".")):
        found = folder_walk.Search(folder).files()
        assert sorted(each.as_posix() for each in found) == sorted(
            (folder / name).as_posix() for name in ("mounts", "other/file")
        )
    # Who asks for such a folder gets it.
    assert folder_walk.Search(tmp_path / "proc").files() == [tmp_path / "proc" / "file"]


def test_a_folder_that_is_called_a_profile_is_a_host_that_cannot_be_read(session):
    (session / "h2.xplane.pb").mkdir()
    (session / "h2.xplane.pb" / "notes.txt").write_text("x")
    report = analyze_run(session.parents[2])
    assert host_count(report) == "2 of 3 hosts"
    assert "this is a folder, though named as a profile" in report.environment["unread_hosts"]["h2"]


def test_a_folder_that_is_called_a_profile_alone(tmp_path):
    (tmp_path / "h2.xplane.pb").mkdir()
    with pytest.raises(TpuprofError, match="this is a folder") as raised:
        find(tmp_path)
    assert raised.value.code == "input-unreadable"


def test_a_folder_that_is_called_a_profile_may_hold_one(tmp_path):
    profile(tmp_path / "h0.xplane.pb")
    profile(tmp_path / "h2.xplane.pb" / "h2.xplane.pb")
    found = find(tmp_path)
    assert len(found.files) == 1
    assert found.warnings[0].startswith("2 captures lie in this folder")


def closed(monkeypatch, folder):
    """Let this folder be one that may not be listed, also for root."""
    scandir = os.scandir

    def denied(path="."):
        if os.fspath(path) == str(folder):
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)


def test_a_capture_that_may_not_be_listed_is_no_folder_without_one(tmp_path, monkeypatch):
    capture = tmp_path / "plugins" / "profile" / "x"
    profile(capture / "host.xplane.pb", 1)
    closed(monkeypatch, capture)
    with pytest.raises(TpuprofError) as error:
        find(tmp_path)
    assert (
        str(error.value)
        == f"{capture}: cannot be read (Permission denied). Check its permissions. [input-unreadable]"
    )
    profile(tmp_path / "plugins" / "profile" / "y" / "host.xplane.pb", 1)
    assert find(tmp_path).warnings == [
        f"{capture} cannot be listed (Permission denied): a capture in it is not seen"
    ]


def test_a_profile_that_may_not_be_opened_is_unreadable(tmp_path, monkeypatch):
    path = tmp_path / "host.xplane.pb"
    profile(path, 1)
    is_file = Path.is_file

    def denied(asked):
        if asked == path:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return is_file(asked)

    monkeypatch.setattr(Path, "is_file", denied)
    with pytest.raises(TpuprofError, match="input-unreadable"):
        find(tmp_path)
