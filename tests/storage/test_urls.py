"""A run at a URL gives the report of the same run here; what a store refuses is one clear error."""

import asyncio
import json
import os
import shutil
import types
from pathlib import Path

import fsspec
import pytest
from typer.testing import CliRunner

from tests.storage.commands import assert_commands_take
from tests.storage.conftest import BUCKET, SAMPLE, sample_files
from tpuprof.cli.main import app
from tpuprof.cli.opening import open_json, open_report
from tpuprof.errors import Code, TpuprofError
from tpuprof.storage.address import shown, url_of
from tpuprof.storage.mirror import _newest, local
from tpuprof.storage.store import PIECE_BYTES, Entry, entry_of, fetch

KEY = "plugins/profile/capture/vm.xplane.pb"


def same(text: str, url: str) -> bool:
    """Whether the report is that of the sample on disk, with the URL for its path."""
    here = open_json(SAMPLE, use_cache=False).replace(str(SAMPLE), url)
    return json.loads(text) == json.loads(here)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("gs:/bucket/run", "gs://bucket/run"),
        ("s3://b/k", "s3://b/k"),
        ("https:/host/x?sig=1", "https://host/x?sig=1"),
        ("runs/capture", None),
        ("C:/runs", None),
        ("gs:", None),
    ],
)
def test_what_a_url_is(given, url):
    assert url_of(Path(given)) == url


def test_a_shown_url_has_no_secret():
    assert shown("https://me:pass@host:1/run?X-Amz-Signature=abc#x") == "https://host:1/run"


def test_s3_gives_the_report_of_the_folder(s3):
    for key, data in sample_files().items():
        s3(key, data)
    url = f"s3://{BUCKET}/{SAMPLE.name}"
    assert same(open_json(Path(url)), url)
    assert open_report(Path(f"{url}/{KEY}")).source["files"] == [f"{url}/{KEY}"]


def test_gs_gives_the_report_of_the_folder(gcs):
    for key, data in sample_files().items():
        gcs(key, data)
    url = f"gs://{BUCKET}/{SAMPLE.name}"
    assert same(open_json(Path(url)), url)


def test_http_gives_the_report_of_a_folder_with_an_index_and_of_a_file(web):
    address, folder, _ = web
    shutil.copytree(SAMPLE, folder / "run")
    assert same(open_json(Path(f"{address}/run")), f"{address}/run")
    one = f"{address}/run/{KEY}"
    assert open_report(Path(one + "?token=secret")).source["files"] == [one]


def test_the_newest_session_alone_is_read():
    entries = [
        Entry("", "plugins/profile/a/h.xplane.pb", 1, 5.0),
        Entry("", "plugins/profile/b/h.xplane.pb", 1, 9.0),
        Entry("", "plugins/profile/b/g.xplane.pb", 1, 1.0),
        Entry("", "plugins/profile/b/h.hlo_proto.pb", 1, 9.0),
        Entry("", "tpuprof/run.json", 1, 1.0),
        Entry("", "checkpoints/model.bin", 1, 99.0),
    ]
    assert [each.below for each in _newest(entries)] == [
        "tpuprof/run.json",
        "plugins/profile/b/h.xplane.pb",
        "plugins/profile/b/g.xplane.pb",
    ]


def test_missing_objects_and_buckets(s3):
    for url in (f"s3://{BUCKET}/nothing", "s3://no-such-bucket-here/run"):
        with pytest.raises(TpuprofError) as caught:
            open_report(Path(url))
        assert caught.value.code is Code.NOT_FOUND
        assert url in str(caught.value)


def test_missing_in_gs(gcs):
    with pytest.raises(TpuprofError) as caught:
        open_report(Path(f"gs://{BUCKET}/nothing"))
    assert caught.value.code is Code.NOT_FOUND


@pytest.mark.parametrize(
    ("trouble", "code"),
    [
        ([404], Code.NOT_FOUND),
        ([403], Code.STORAGE_FORBIDDEN),
        ([429] * 9, Code.STORAGE_THROTTLED),
        ([503] * 9, Code.STORAGE_THROTTLED),
        (["cut"] * 9, Code.STORAGE_TRUNCATED),
        ([500] * 9, Code.STORAGE_UNREACHABLE),
    ],
)
def test_what_a_server_refuses(web, trouble, code):
    address, folder, kind = web
    shutil.copy(SAMPLE / KEY, folder / "vm.xplane.pb")
    kind.trouble["/vm.xplane.pb"] = list(trouble)
    with pytest.raises(TpuprofError) as caught:
        open_report(Path(f"{address}/vm.xplane.pb?secret=1"))
    assert caught.value.code is code
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("trouble", [[429, 429], [503], ["cut", "cut", 429]])
def test_a_busy_server_is_asked_again(web, trouble):
    address, folder, kind = web
    shutil.copy(SAMPLE / KEY, folder / "vm.xplane.pb")
    kind.trouble["/vm.xplane.pb"] = list(trouble)
    assert open_report(Path(f"{address}/vm.xplane.pb")).verdict.bound == "input"


@pytest.fixture(params=["s3", "gs"])
def busy_bucket(request, busy, monkeypatch, tmp_path):
    """(URL of the sample in an emulated bucket, class of the server before it)."""
    scheme = request.param
    put = request.getfixturevalue("s3" if scheme == "s3" else "gcs")
    for key, data in sample_files().items():
        put(f"{tmp_path.name}/{key}", data)
    if scheme == "gs":
        import gcsfs.retry

        # It pauses for half a minute in all.
        short = {**vars(asyncio), "sleep": lambda _: asyncio.sleep(0.01)}
        monkeypatch.setattr(gcsfs.retry, "asyncio", types.SimpleNamespace(**short))
    variable = "AWS_ENDPOINT_URL" if scheme == "s3" else "STORAGE_EMULATOR_HOST"
    address, kind = busy(os.environ[variable])
    monkeypatch.setenv(variable, address)
    # A client that was made before goes to the store itself.
    client = fsspec.get_filesystem_class(scheme)
    client.clear_instance_cache()
    yield f"{scheme}://{BUCKET}/{tmp_path.name}/{SAMPLE.name}", kind
    client.clear_instance_cache()


@pytest.mark.parametrize("trouble", [[429], [503, 503]])
def test_a_busy_bucket_is_asked_again(busy_bucket, trouble):
    url, kind = busy_bucket
    kind.trouble[:] = trouble
    assert open_report(Path(url)).verdict.bound == "input"
    assert kind.refused == len(trouble)


def test_a_bucket_that_stays_busy_is_named(busy_bucket):
    url, kind = busy_bucket
    kind.trouble[:] = [503] * 1000
    with pytest.raises(TpuprofError) as caught:
        open_report(Path(url))
    assert caught.value.code is Code.STORAGE_THROTTLED
    assert url in str(caught.value)
    # A store that asks for fewer requests is not asked without end.
    assert 2 <= kind.refused <= 40


def test_a_denied_bucket_is_said_without_the_clients_words(s3, monkeypatch):
    import s3fs

    async def denied(*_arguments, **_options):
        raise PermissionError("Forbidden: key AKIASECRET")

    with monkeypatch.context() as patched, pytest.raises(TpuprofError) as caught:
        patched.setattr(s3fs.S3FileSystem, "_info", denied)
        open_report(Path(f"s3://{BUCKET}/run"))
    assert caught.value.code is Code.STORAGE_FORBIDDEN
    assert "AKIASECRET" not in str(caught.value)


def test_nobody_answers():
    with pytest.raises(TpuprofError) as caught:
        open_report(Path("http://127.0.0.1:9/vm.xplane.pb"))
    assert caught.value.code is Code.STORAGE_UNREACHABLE


def test_a_missing_client_names_the_extra(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "adlfs", None)
    # Another test may have made a client.
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "az", raising=False)
    with pytest.raises(TpuprofError, match=r"tpuprof\[azure\]") as caught:
        open_report(Path("az://container/run"))
    assert caught.value.code is Code.MISSING_EXTRA


def test_a_large_object_comes_by_ranges(s3, tmp_path):
    data = os.urandom(2 * PIECE_BYTES + 5)
    s3("large.bin", data)
    entry = entry_of(f"s3://{BUCKET}/large.bin")
    assert entry is not None
    fetch(entry, tmp_path / "large.bin")
    assert (tmp_path / "large.bin").read_bytes() == data


def test_a_server_without_ranges_sends_a_large_object_whole(web, tmp_path):
    address, folder, _ = web
    data = os.urandom(PIECE_BYTES + 5)
    (folder / "large.bin").write_bytes(data)
    entry = entry_of(f"{address}/large.bin")
    assert entry is not None
    fetch(entry, tmp_path / "large.bin")
    assert (tmp_path / "large.bin").read_bytes() == data


def test_an_object_that_is_listed_and_gone_is_named_and_the_rest_is_read(web):
    address, folder, kind = web
    session = folder / "run" / "plugins" / "profile" / "capture"
    session.mkdir(parents=True)
    for name in ("a", "b"):
        shutil.copy(SAMPLE / KEY, session / f"{name}.xplane.pb")
    kind.trouble["/run/plugins/profile/capture/b.xplane.pb"] = [404]
    report = open_report(Path(f"{address}/run"))
    assert [row.host for row in report.hosts.hosts] == ["a"]
    assert any("b.xplane.pb: no such object" in each for each in report.warnings)


def test_keys_that_lead_upwards_are_never_written(s3):
    s3("run/plugins/profile/x/../../../../evil.xplane.pb", b"x")
    for key, data in sample_files().items():
        s3(key.replace(SAMPLE.name, "run", 1), data)
    assert {path.name for path in local(f"s3://{BUCKET}/run").rglob("*.xplane.pb")} == {"vm.xplane.pb"}


def test_commands_take_urls(s3, tmp_path):
    for key, data in sample_files().items():
        s3(key, data)
    assert_commands_take(f"s3://{BUCKET}/{SAMPLE.name}", SAMPLE, tmp_path)


def test_tensorboard_does_not_write_into_a_copy_that_is_removed(s3):
    for key, data in sample_files().items():
        s3(key, data)
    done = CliRunner().invoke(app, ["tensorboard", f"s3://{BUCKET}/{SAMPLE.name}", "--write-only"])
    assert isinstance(done.exception, TpuprofError)
    assert done.exception.code is Code.USAGE
