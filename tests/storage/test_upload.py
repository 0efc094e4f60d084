"""A capture into a bucket: written here, copied at the end, kept where the copy fails."""

import json
import shutil
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.pod.pods import trace
from tests.storage.conftest import BUCKET, SAMPLE
from tpuprof.cli.opening import open_report
from tpuprof.decode.find import host_name
from tpuprof.errors import Code, TpuprofError
from tpuprof.pod.analyze import analyze_pod
from tpuprof.storage import upload
from tpuprof.storage.failures import TruncatedError
from tpuprof.storage.store import content, entries_below, filesystem
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


PROFILE = "plugins/profile/capture/train.xplane.pb"


def captured_by(folder, number, session="capture"):
    """What a host that calls itself `train` captured, as its process 7."""
    profile = folder / "plugins" / "profile" / session / "train.xplane.pb"
    profile.parent.mkdir(parents=True)
    profile.write_bytes(f"profile {number}".encode())
    notes = folder / "tpuprof"
    notes.mkdir()
    (notes / "telemetry.train.0.jsonl").write_text(f"steps {number}", "utf-8")
    (notes / "after.train.0.json").write_text(f"{number}", "utf-8")
    info = {"host": "train", "profile": f"plugins/profile/{session}/train.xplane.pb", "number": number}
    (notes / "run.json").write_text(json.dumps({**info, "capture": {"name": session}}), "utf-8")
    return folder


def store_of(name, request):
    if name in ("s3", "gcs"):
        request.getfixturevalue(name)
        return f"{'s3' if name == 's3' else 'gs'}://{BUCKET}/runs/{uuid.uuid4().hex}"
    return f"memory://runs/{uuid.uuid4().hex}"


def kept(url):
    """By label of each profile: what it says, and what its telemetry, its aftermath and its description say."""
    told = {each.below: content(each.url).decode() for each in entries_below(url)}
    infos = [json.loads(text) for name, text in told.items() if name.startswith("tpuprof/run")]
    found = {}
    for name, text in told.items():
        if name.endswith(".xplane.pb"):
            label = host_name(Path(name))
            info = next(each["number"] for each in infos if each["profile"] == name)
            notes = (told[f"tpuprof/telemetry.{label}.0.jsonl"], told[f"tpuprof/after.{label}.0.json"])
            found[label] = (text, *notes, info)
    return found


def said(number):
    return f"profile {number}", f"steps {number}", str(number), number


@pytest.mark.parametrize("store", ["s3", "gcs", "memory"])
def test_hosts_of_one_name_are_kept_and_told_apart(store, request, tmp_path):
    url = store_of(store, request)
    for number, listed_as in enumerate(["root@w0:22", "w1", "w2", "", ""]):
        upload.upload(captured_by(tmp_path / str(number), number), url, listed_as)
    assert kept(url) == {
        "train": said(0),
        "train-w1": said(1),
        "train-w2": said(2),
        "train-2": said(3),
        "train-3": said(4),
    }


def test_hosts_of_one_name_that_copy_at_the_same_moment_are_kept(s3, tmp_path):
    url = f"s3://{BUCKET}/runs/{uuid.uuid4().hex}"
    folders = [captured_by(tmp_path / str(number), number) for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda folder: upload.upload(folder, url), folders))
    found = kept(url)
    assert sorted(each[0] for each in found.values()) == [f"profile {number}" for number in range(6)]
    assert sorted(each[3] for each in found.values()) == list(range(6))
    assert all(each == said(each[3]) for each in found.values())


@pytest.mark.parametrize("store", ["s3", "gcs"])
def test_a_copy_whose_answer_was_lost_is_not_made_twice(store, request, tmp_path, monkeypatch):
    url = store_of(store, request)
    tries = []
    put_file = type(filesystem(url)[0]).put_file

    def lost(self, *arguments, **named):
        put_file(self, *arguments, **named)
        tries.append(1)
        if len(tries) == 1:
            raise TruncatedError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(type(filesystem(url)[0]), "put_file", lost)
        upload.upload(captured_by(tmp_path / "a", 1), url)
    assert kept(url) == {"train": said(1)}


def test_a_later_capture_replaces_the_description_of_an_older_one(s3, tmp_path):
    url = f"s3://{BUCKET}/runs/again"
    upload.upload(captured_by(tmp_path / "a", 1, "first"), url)
    upload.upload(captured_by(tmp_path / "b", 2, "second"), url)
    [info] = [each for each in entries_below(url) if "run." in each.below]
    assert json.loads(content(info.url))["number"] == 2


def test_force_removes_the_capture_that_is_there(s3, tmp_path):
    url = f"s3://{BUCKET}/runs/forced"
    upload.upload(captured_by(tmp_path / "a", 1), url)
    refuse_overwrite(url, "capture", force=True)
    upload.upload(captured_by(tmp_path / "b", 2), url)
    profiles = [each for each in entries_below(url) if each.below.endswith(".pb")]
    assert [(each.below, content(each.url)) for each in profiles] == [(PROFILE, b"profile 2")]


def test_hosts_of_one_name_in_a_bucket_are_hosts_of_the_pod(s3, tmp_path):
    url = f"s3://{BUCKET}/runs/pod"
    for number, listed_as in enumerate(["w0", "w1", "w2"]):
        folder = captured_by(tmp_path / str(number), number)
        (folder / PROFILE).write_bytes(trace((number * 10, 300)).space.SerializeToString())
        upload.upload(folder, url, listed_as)
    report = analyze_pod(url)
    assert [row.host for row in report.hosts.hosts] == ["train", "train-w1", "train-w2"]
