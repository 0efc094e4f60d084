"""Where profilers write before a profile is put into the run folder."""

import tempfile

import pytest

from tpuprof.capture import scratch


@pytest.fixture(autouse=True)
def no_capture(monkeypatch, tmp_path):
    monkeypatch.setattr(scratch, "_places", [])
    (tmp_path / "usual").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "usual"))


def test_folders_are_in_the_private_folder_of_a_capture(tmp_path):
    private = tmp_path / "private"
    private.mkdir()
    scratch.put_into(str(private))
    made = scratch.new_scratch()
    assert made.parent == private and made.is_dir()
    scratch.remove_scratch(made)
    assert not made.exists()


def test_without_one_and_when_it_is_gone_they_are_where_temporary_files_are(tmp_path):
    assert scratch.new_scratch().parent == tmp_path / "usual"
    scratch.put_into(str(tmp_path / "gone"))
    assert scratch.new_scratch().parent == tmp_path / "usual"


def test_what_cannot_be_removed_raises_nothing(tmp_path):
    scratch.remove_scratch(tmp_path / "never made")
