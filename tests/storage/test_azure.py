"""`az://` against Azurite, Microsoft's emulator (`make azurite`), and against servers that refuse, which need none."""

import http.server
import os
import shutil
import threading
from pathlib import Path

import pytest

from tests.storage.commands import assert_commands_take
from tests.storage.conftest import AZURE_KEY, BUCKET, SAMPLE, azure_client, connection_string, sample_files
from tests.storage.test_urls import KEY, same
from tpuprof.cli.opening import open_json, open_report
from tpuprof.errors import Code, TpuprofError
from tpuprof.storage.address import shown
from tpuprof.storage.failures import failure
from tpuprof.storage.store import PIECE_BYTES, entries_below, entry_of, fetch
from tpuprof.storage.upload import kept_at, refuse_overwrite

pytest.importorskip("adlfs")


@pytest.fixture
def sample(azure, tmp_path):
    """The URL of the sample in an emulated container, another for each test: what was read of a URL is kept."""
    for key, data in sample_files().items():
        azure(f"{tmp_path.name}/{key}", data)
    return f"az://{BUCKET}/{tmp_path.name}/{SAMPLE.name}"


def test_az_gives_the_report_of_the_folder(sample):
    assert same(open_json(Path(sample)), sample)
    assert open_report(Path(f"{sample}/{KEY}")).source["files"] == [f"{sample}/{KEY}"]


@pytest.mark.parametrize("scheme", ["abfs", "abfss"])
def test_a_url_with_the_account_is_read_and_shown_whole(sample, scheme):
    url = sample.replace(f"az://{BUCKET}", f"{scheme}://{BUCKET}@devstoreaccount1.dfs.core.windows.net")
    report = open_report(Path(url))
    assert report.source["files"] == [f"{url}/{KEY}"]
    # An object is asked for by the account of the URL, which need not be in the environment.
    assert all(each.url.startswith(url) for each in entries_below(url))


def test_commands_take_az(sample, tmp_path):
    assert_commands_take(sample, SAMPLE, tmp_path)


def test_a_capture_arrives_whole(azure):
    url = f"az://{BUCKET}/runs/first"
    with kept_at(url) as folder:
        shutil.copytree(SAMPLE, folder, dirs_exist_ok=True)
    assert open_report(Path(url)).verdict.bound == "input"
    with pytest.raises(TpuprofError) as caught:
        refuse_overwrite(url, "capture", force=False)
    assert caught.value.code is Code.OUTPUT_EXISTS
    refuse_overwrite(url, "other", force=False)


def test_what_is_missing(azure):
    for url in (f"az://{BUCKET}/nothing", "az://no-such-container/run"):
        with pytest.raises(TpuprofError) as caught:
            open_report(Path(url))
        assert caught.value.code is Code.NOT_FOUND
        assert url in str(caught.value)


def test_a_wrong_key_is_said_without_the_clients_words(sample, azurite, monkeypatch):
    import adlfs

    adlfs.AzureBlobFileSystem.clear_instance_cache()
    wrong = connection_string(azurite).replace(AZURE_KEY, "A" + AZURE_KEY[1:])
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", wrong)
    with pytest.raises(TpuprofError) as caught:
        open_report(Path(sample))
    assert caught.value.code is Code.STORAGE_FORBIDDEN
    assert "AccountKey" not in str(caught.value)


def test_a_large_object_comes_by_ranges(azure, tmp_path):
    data = os.urandom(2 * PIECE_BYTES + 5)
    azure("large.bin", data)
    entry = entry_of(f"az://{BUCKET}/large.bin")
    assert entry is not None
    fetch(entry, tmp_path / "large.bin")
    assert (tmp_path / "large.bin").read_bytes() == data


@pytest.fixture
def busy_container(sample, azurite, busy, monkeypatch):
    """(URL of the sample, class of the server before the store)."""
    address, kind = busy(azurite)
    azure_client(address, monkeypatch)
    return sample, kind


@pytest.mark.parametrize("trouble", [[429], [503, 503], ["cut"], ["cut", 503]])
def test_a_busy_container_is_asked_again(busy_container, trouble):
    url, kind = busy_container
    kind.trouble[:] = trouble
    assert open_report(Path(url)).verdict.bound == "input"
    assert kind.refused == len(trouble)


@pytest.mark.parametrize(
    ("trouble", "code"),
    [
        (429, Code.STORAGE_THROTTLED),
        (503, Code.STORAGE_THROTTLED),
        (403, Code.STORAGE_FORBIDDEN),
        (404, Code.NOT_FOUND),
        (500, Code.STORAGE_UNREACHABLE),
        ("cut", Code.STORAGE_TRUNCATED),
    ],
)
def test_a_container_that_goes_on_refusing_is_named(busy_container, trouble, code):
    url, kind = busy_container
    kind.trouble[:] = [trouble] * 1000
    with pytest.raises(TpuprofError) as caught:
        open_report(Path(url))
    assert caught.value.code is code
    assert url in str(caught.value)
    # Azure's client alone would ask four times in a minute, and we four times that.
    assert kind.refused <= 16


class Refusing(http.server.BaseHTTPRequestHandler):
    """Answers each request with a status of its own, as Azure's storage does."""

    status = 503
    asked = 0

    def do_GET(self):
        type(self).asked += 1
        self.send_response(self.status)
        self.send_header("x-ms-error-code", "ServerBusy")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_arguments):
        pass


@pytest.mark.parametrize(
    ("status", "code", "most"),
    [
        (403, Code.STORAGE_FORBIDDEN, 1),
        (429, Code.STORAGE_THROTTLED, 4),
        (503, Code.STORAGE_THROTTLED, 4),
        (500, Code.STORAGE_UNREACHABLE, 4),
    ],
)
def test_a_store_that_refuses_is_asked_by_us_alone(monkeypatch, status, code, most):
    kind = type("Refused", (Refusing,), {"status": status, "asked": 0})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    azure_client(f"http://127.0.0.1:{server.server_port}", monkeypatch)
    try:
        with pytest.raises(TpuprofError) as caught:
            entry_of("az://container/run/vm.xplane.pb")
    finally:
        server.shutdown()
        server.server_close()
    assert caught.value.code is code
    assert 1 <= kind.asked <= most


def test_a_store_that_is_not_there_is_given_up_soon(monkeypatch):
    azure_client("http://127.0.0.1:9", monkeypatch)
    with pytest.raises(TpuprofError) as caught:
        entry_of("az://container/run/vm.xplane.pb")
    assert caught.value.code is Code.STORAGE_UNREACHABLE


def test_without_an_account_the_way_to_name_one_is_said(monkeypatch):
    import adlfs

    adlfs.AzureBlobFileSystem.clear_instance_cache()
    for name in [each for each in os.environ if each.startswith("AZURE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AZURE_STORAGE_ANON", "true")
    with pytest.raises(TpuprofError, match="AZURE_STORAGE_ACCOUNT_NAME") as caught:
        entry_of("az://container/run")
    assert caught.value.code is Code.STORAGE_FORBIDDEN


def test_no_credentials_are_not_tried_again(monkeypatch):
    from azure.core.exceptions import ClientAuthenticationError

    error = failure("az://container/run", ClientAuthenticationError("DefaultAzureCredential: token SECRET"))
    assert error.code is Code.STORAGE_FORBIDDEN
    assert "SECRET" not in str(error)
    # Another store's ValueError is no account that is missing.
    other = failure("s3://bucket/run", ValueError("unable to connect to account for x"))
    assert other.code is Code.STORAGE_UNREACHABLE


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("abfs://box@account.dfs.core.windows.net/run?sig=x", "abfs://box@account.dfs.core.windows.net/run"),
        ("abfs://me:secret@account.dfs.core.windows.net/run", "abfs://account.dfs.core.windows.net/run"),
        ("https://me@host/run", "https://host/run"),
        ("az://box/run", "az://box/run"),
    ],
)
def test_a_container_is_shown_and_a_user_is_not(url, expected):
    assert shown(url) == expected
