"""A capture into a bucket: written here, copied at the end, kept where the copy fails."""

import shutil
from pathlib import Path

import pytest

from tests.storage.conftest import BUCKET, SAMPLE
from tpuprof.cli.opening import open_report
from tpuprof.errors import Code, TpuprofError
from tpuprof.storage import upload
from tpuprof.storage.upload import kept_at, refuse_overwrite


@pytest.mark.parametrize("store", ["s3", "gcs"])
def test_a_capture_arrives_whole(store, request):
    request.getfixturevalue(store)
    url = f"{'s3' if store == 's3' else 'gs'}://{BUCKET}/runs/first"
    with kept_at(url) as folder:
        shutil.copytree(SAMPLE, folder, dirs_exist_ok=True)
    assert not folder.exists()
    assert open_report(Path(url)).verdict.bound == "input"
    with pytest.raises(TpuprofError) as caught:
        refuse_overwrite(url, "capture", force=False)
    assert caught.value.code is Code.OUTPUT_EXISTS
    refuse_overwrite(url, "other", force=False)
    refuse_overwrite(url, "capture", force=True)


def test_what_was_captured_is_copied_also_where_the_program_failed(s3):
    url = f"s3://{BUCKET}/runs/failed"
    with pytest.raises(ValueError, match="program"), kept_at(url) as folder:
        shutil.copytree(SAMPLE, folder, dirs_exist_ok=True)
        raise ValueError("program")
    assert open_report(Path(url)).verdict.bound == "input"


def test_a_capture_that_cannot_be_copied_is_kept_and_named(monkeypatch):
    def put(source, url):
        raise TpuprofError(Code.STORAGE_FORBIDDEN, f"{url}: access was denied.")

    monkeypatch.setattr(upload, "put", put)
    with pytest.raises(TpuprofError, match="is kept in") as caught, kept_at("s3://b/run") as folder:
        (folder / "x").write_text("1", "utf-8")
    assert caught.value.code is Code.STORAGE_FORBIDDEN
    assert (folder / "x").read_text("utf-8") == "1"
    assert str(folder) in str(caught.value)
    shutil.rmtree(folder.parent)
