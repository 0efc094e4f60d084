"""Stores on this machine: moto for s3://, gcp-storage-emulator for gs://, Azurite for az:// where `make azurite` put it,
and web servers that misbehave as asked."""

import http.client
import http.server
import os
import shutil
import socket
import subprocess
import threading
import time
from functools import partial
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import pytest

from tpuprof.storage import failures

SAMPLE = Path(__file__).resolve().parents[2] / "sample_traces" / "input_starved"
BUCKET = "pods"
# What `make azurite` installs.
AZURITE = Path(__file__).resolve().parents[2] / ".azurite" / "node_modules" / ".bin" / "azurite-blob"
# The key that every Azurite has, from its documentation.
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(failures, "PAUSES_S", [0.01, 0.01, 0.01])


def sample_files() -> dict[str, bytes]:
    """The sample's run folder, as keys of a bucket."""
    return {
        path.relative_to(SAMPLE.parent).as_posix(): path.read_bytes()
        for path in sorted(SAMPLE.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="session")
def _moto():
    from moto.s3.responses import S3Response
    from moto.server import ThreadedMotoServer

    # S3 looks whether an object is there and writes it as one action. moto does one after the other, so that of two
    # conditional writes at the same moment both succeed.
    put_object, one_at_a_time = S3Response.put_object, threading.Lock()

    def put_atomically(response):
        with one_at_a_time:
            return put_object(response)

    server = ThreadedMotoServer(port=0, verbose=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(S3Response, "put_object", put_atomically)
        server.start()
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
        server.stop()


@pytest.fixture
def s3(_moto, monkeypatch):
    """A function that puts an object; the bucket is at s3://pods."""
    import s3fs

    for name, value in {
        "AWS_ENDPOINT_URL": _moto,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    # A client that another test made may have another address, or no credentials.
    s3fs.S3FileSystem.clear_instance_cache()
    store = s3fs.S3FileSystem(use_listings_cache=False, skip_instance_cache=True)
    if not store.exists(BUCKET):
        store.mkdir(BUCKET)
    yield lambda key, data: store.pipe_file(f"{BUCKET}/{key}", data)
    store.rm(BUCKET, recursive=True)


@pytest.fixture
def gcs(monkeypatch):
    """The same for gs://pods."""
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")  # the emulator has no gRPC
    import gcsfs
    from gcp_storage_emulator.server import create_server

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = create_server("127.0.0.1", port, in_memory=True, default_bucket=BUCKET)
    server.start()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
    store = gcsfs.GCSFileSystem(token="anon", use_listings_cache=False, skip_instance_cache=True)
    yield lambda key, data: store.pipe_file(f"{BUCKET}/{key}", data)
    server.stop()
    gcsfs.GCSFileSystem.clear_instance_cache()


def connection_string(address: str) -> str:
    """What names an emulated account to Azure's client."""
    return (
        f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={AZURE_KEY};"
        f"BlobEndpoint={address}/devstoreaccount1;"
    )


def azure_client(address: str, monkeypatch) -> None:
    """Let az:// go to a store at this address; a client that another test made goes elsewhere."""
    import adlfs

    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection_string(address))
    adlfs.AzureBlobFileSystem.clear_instance_cache()


@pytest.fixture(scope="session")
def azurite(tmp_path_factory):
    """The address of Microsoft's emulator, which is a program of Node.js."""
    program = AZURITE if AZURITE.is_file() else shutil.which("azurite-blob")
    if not program:
        pytest.skip("Azurite is not installed; make azurite installs it with npm")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Azure's client is newer than what Azurite knows of the protocol.
    options = ("--silent", "--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck")
    place = tmp_path_factory.mktemp("azurite")
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(program), *options, "--blobPort", str(port)], cwd=place, stdout=log, stderr=log
        )
    try:
        for _ in range(600):
            with socket.socket() as there:
                if there.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None:
                pytest.fail(f"Azurite ended: {(place / 'log').read_text('utf-8')}")
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def azure(azurite, monkeypatch):
    """The same for az://pods."""
    adlfs = pytest.importorskip("adlfs")
    azure_client(azurite, monkeypatch)
    store = adlfs.AzureBlobFileSystem(
        connection_string=connection_string(azurite), use_listings_cache=False, skip_instance_cache=True
    )
    if not store.exists(BUCKET):
        store.mkdir(BUCKET)
    yield lambda key, data: store.pipe_file(f"{BUCKET}/{key}", data)
    store.rm(BUCKET, recursive=True)
    adlfs.AzureBlobFileSystem.clear_instance_cache()


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; does `trouble[path]` first where there is any: a list of statuses, or "cut"."""

    trouble: ClassVar[dict[str, list[object]]] = {}
    asked: ClassVar[list[str]] = []

    def do_GET(self):
        type(self).asked.append(self.path)
        left = self.trouble.get(self.path.partition("?")[0])
        what = left.pop(0) if left else None
        if isinstance(what, int):
            self.send_error(what)
        elif what == "cut":
            whole = Path(self.translate_path(self.path)).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(whole)))
            self.end_headers()
            self.wfile.write(whole[: len(whole) // 2])
            self.close_connection = True
        else:
            super().do_GET()

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def web(tmp_path):
    """(address, folder it serves, handler class whose `trouble` may be set)."""
    folder = tmp_path / "web"
    folder.mkdir()
    kind = type("Served", (Handler,), {"trouble": {}, "asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(kind, directory=os.fspath(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", folder, kind
    server.shutdown()
    server.server_close()
    thread.join()


class Busy(http.server.BaseHTTPRequestHandler):
    """Stands before a store; does what is in `trouble` first to whoever reads `key` (a status, or "cut"), then passes on."""

    protocol_version = "HTTP/1.1"
    store: ClassVar[str] = ""
    key: ClassVar[str] = ".xplane.pb"
    trouble: ClassVar[list[object]] = []
    refused: ClassVar[int] = 0

    def _pass_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.trouble and self.command == "GET" and self.key in self.path:
            type(self).refused += 1
            what = self.trouble.pop(0)
            if what == "cut":
                self._cut_off(body)
            else:
                self._answer(what, {}, b"")
            return
        self._answer(*self._asked(body))

    def _asked(self, body):
        connection = http.client.HTTPConnection(urlsplit(self.store).netloc)
        connection.request(self.command, self.path, body, dict(self.headers))
        answer = connection.getresponse()
        found = answer.status, dict(answer.getheaders()), answer.read()
        connection.close()
        return found

    def _cut_off(self, body):
        status, headers, whole = self._asked(body)
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(whole[: len(whole) // 2])
        self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on  # noqa: N815

    def _answer(self, status, headers, body):
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("transfer-encoding", "connection", "date", "server", "content-length"):
                self.send_header(name, value)
        length = headers.get("Content-Length") or headers.get("content-length")
        self.send_header("Content-Length", length if self.command == "HEAD" and length else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def busy():
    """A function that puts a server before a store: (address, class whose `trouble` may be set)."""
    servers = []

    def before(store):
        kind = type("BusyStore", (Busy,), {"store": store, "trouble": [], "refused": 0})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}", kind

    yield before
    for server in servers:
        server.shutdown()
        server.server_close()
