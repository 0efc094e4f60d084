"""Who may ask, what may be read, and what an upload may be."""

import gzip
import signal
import socket
import subprocess
import sys
import tracemalloc
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from tests.dashboard.conftest import training_trace
from tests.dashboard.test_viewers import answers

pytest.importorskip("dash")
from tpuprof_dashboard import routes, trial, uploads
from tpuprof_dashboard import store as store_module
from tpuprof_dashboard.addresses import addresses
from tpuprof_dashboard.app import create_app
from tpuprof_dashboard.security import Guard, inside
from tpuprof_dashboard.store import Failure, Loading, Store
from tpuprof_dashboard.uploads import Uploads

from tpuprof.errors import Code, TpuprofError
from tpuprof.report.load import read_report


@pytest.fixture
def trace(tmp_path):
    return training_trace().write(tmp_path / "run" / "x.xplane.pb")


def client(trace, guard=None):
    return create_app(Store([trace]), guard).server.test_client()


@pytest.mark.parametrize("host", ["127.0.0.1:8050", "localhost", "[::1]:8050", "LOCALHOST:1"])
def test_loopback_names_are_answered(trace, host):
    assert client(trace).get("/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    ("port", "said"), [("99999", "range"), ("-1", "range"), ("taken", "Address already in use")]
)
def test_a_port_that_cannot_be_served_on_is_one_line(trace, port, said):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = str(taken.getsockname()[1]) if port == "taken" else port
        command = [sys.executable, "-m", "tpuprof", "dashboard", str(trace), "--no-browser", "--port", number]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr
    assert done.stderr.endswith("[usage]\n")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8050", "[", ""])
def test_a_rebound_name_is_refused(trace, host):
    answer = client(trace).get("/_dash-layout", headers={"Host": host})
    assert answer.status_code == 403
    assert b"run" not in answer.data


def test_another_sites_page_may_not_ask(trace):
    headers = {"Host": "localhost", "Origin": "https://evil.example"}
    assert client(trace).post("/_dash-update-component", json={}, headers=headers).status_code == 403


def test_a_loopback_address_needs_no_token():
    assert Guard.for_host("127.0.0.1").token is None
    assert Guard.for_host("::1").token is None


def test_any_other_address_has_a_token_of_its_own():
    first, second = Guard.for_host("0.0.0.0").token, Guard.for_host("0.0.0.0").token
    assert len(first) >= 32
    assert first != second


def test_the_token_opens_and_is_kept_in_a_cookie(trace):
    browser = client(trace, Guard("secret-token"))
    assert browser.get("/", headers={"Host": "box:8050"}).status_code == 401
    assert browser.get("/?token=wrong").status_code == 401
    opened = browser.get("/?token=secret-token&page=ops&run=a%26b")
    assert opened.status_code == 302
    assert opened.headers["Location"] == "/?page=ops&run=a%26b"
    cookie = opened.headers["Set-Cookie"]
    assert cookie.startswith(f"{Guard('secret-token').cookie}=secret-token")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert browser.get("/").status_code == 200


def test_the_redirect_leads_nowhere_else(trace):
    opened = client(trace, Guard("secret-token")).get("//evil.example/?token=secret-token")
    assert opened.headers["Location"] == "/"


def test_pages_may_load_from_here_alone(trace):
    policy = client(trace).get("/", headers={"Host": "localhost"}).headers["Content-Security-Policy"]
    scripts = next(part for part in policy.split("; ") if part.startswith("script-src"))
    assert "unsafe" not in scripts
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy


def test_two_dashboards_on_one_host_share_no_cookie(trace):
    assert Guard("one").cookie != Guard("other").cookie
    browser = client(trace, Guard("one"))
    assert browser.get("/?token=one").status_code == 302
    # The other's cookie beside it does no harm.
    browser.set_cookie(Guard("other").cookie, "other")
    assert browser.get("/").status_code == 200


TRAVERSALS = """
    /assets/../../pyproject.toml  /assets/%2e%2e/app.py  /assets/..%2fapp.py  /assets/%00  /..%5c..%5cx  /etc/passwd
    /_dash-component-suites/../../etc/passwd  /_dash-component-suites/os/path.py  /_dash-component-suites//etc/passwd
    /_dash-component-suites/dash/../../../../etc/passwd  /_dash-component-suites/no-such/x.js  /%2e%2e/%2e%2e/x
    /_dash-component-suites/dash/%00  /_dash-component-suites/tpuprof_dashboard/store.py  /_tpuprof/../app.py
"""


@pytest.mark.parametrize("path", TRAVERSALS.split())
def test_paths_do_not_lead_out(trace, path, capfd):
    answer = client(trace).get(path, headers={"Host": "localhost"})
    assert answer.status_code == 404
    assert answer.data == b"404: Not Found.\n"
    assert capfd.readouterr().err == ""


def test_a_request_that_makes_no_sense_is_told_in_one_line(trace, capfd):
    answer = client(trace).post("/_dash-update-component", json={}, headers={"Host": "localhost"})
    assert (answer.status_code, answer.data) == (500, b"500: Internal Server Error.\n")
    assert len(capfd.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_addresses_that_are_printed_can_be_opened(host):
    found = addresses(host, 8050, "a token")
    assert found[0] == "http://localhost:8050/?token=a+token"
    assert len(found) == 2
    assert not any(each in "".join(found) for each in ("0.0.0.0", "[::]", "//:"))
    assert addresses("::1", 80, None) == ["http://[::1]:80/"]


def test_links_that_lead_out_are_not_read(tmp_path):
    secret = training_trace().write(tmp_path / "secret" / "x.xplane.pb")
    logdir = tmp_path / "logdir"
    (logdir / "run").mkdir(parents=True)
    (logdir / "run" / "y.xplane.pb").symlink_to(secret)
    (logdir / "linked").symlink_to(secret.parent)
    store = Store([logdir])
    assert not any("linked" in name for name in store.names())
    name = store.names()[0]
    while not isinstance(found := store.report(name), Failure):
        assert not hasattr(found, "verdict")
    assert "leads out of" in found.message
    store.close()


def test_inside_follows_links(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to("/etc")
    roots = [(tmp_path / "in").resolve()]
    assert inside(tmp_path / "in" / "a", roots)
    assert not inside(tmp_path / "in" / "link" / "passwd", roots)
    assert not inside(tmp_path / "in" / ".." / "out", roots)
    assert not inside(tmp_path / "inside", roots)


def upload(trace, data, name="x.xplane.pb"):
    store = Store([trace])
    browser = create_app(store).server.test_client()
    answer = browser.post(
        "/_tpuprof/upload", query_string={"name": name}, data=data, headers={"Host": "localhost"}
    )
    kept = store.names()[0]
    store.close()
    return answer.status_code, answer.get_json(), kept


def test_an_upload_is_kept_under_its_name_alone(trace):
    status, said, kept = upload(trace, training_trace().to_bytes(), "../../etc/<x>\0.pb")
    assert (status, said["run"]) == (200, kept) == (200, "upload 1: <x>.pb")


def test_uploads_are_limited_in_number(monkeypatch):
    monkeypatch.setattr(uploads, "MAX_UPLOADS", 2)
    kept = Uploads()
    first, _second = (kept.add("x", BytesIO(b"0")) for _ in range(2))
    with pytest.raises(TpuprofError, match="2 uploads are kept at most"):
        kept.add("x", BytesIO(b"0"))
    kept.remove(first.name)
    assert not first.path.exists()
    assert kept.add("x", BytesIO(b"0")).name == "upload 3: x"
    kept.close()


def test_uploads_are_limited_in_size(trace, monkeypatch):
    monkeypatch.setattr(uploads, "MAX_UPLOAD_BYTES", 10)
    monkeypatch.setattr(routes, "MAX_UPLOAD_BYTES", 10)
    assert upload(trace, b"0" * 10)[0] == 200
    status, said, kept = upload(trace, b"0" * 12)
    assert status == 413
    assert "an upload may have" in said["error"]
    assert not kept.startswith("upload")


def test_an_upload_without_a_stated_length_is_limited_too(monkeypatch):
    monkeypatch.setattr(uploads, "MAX_UPLOAD_BYTES", 10)
    kept = Uploads()
    with pytest.raises(TpuprofError, match="larger than an upload may be"):
        kept.add("x", BytesIO(b"0" * 11))
    assert kept.kept() == {}
    kept.close()


def zipped(content):
    data = BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("report.json", content if isinstance(content, bytes) else bytes(content))
    return data.getvalue()


@pytest.mark.parametrize(
    "pack",
    [gzip.compress, zipped, lambda size: gzip.compress(b"") + gzip.compress(bytes(size))],
    ids=["gzip", "zip", "gzip of several members"],
)
def test_uploads_are_limited_in_what_they_inflate_to(pack, monkeypatch):
    monkeypatch.setattr(uploads, "MAX_INFLATED_BYTES", 3_000_000)
    pack = pack if pack is not gzip.compress else lambda size: gzip.compress(bytes(size))
    name = "x.zip" if pack is zipped else "x"
    kept = Uploads()
    kept.add(name, BytesIO(pack(2_900_000)))
    with pytest.raises(TpuprofError, match="inflated"):
        kept.add(name, BytesIO(pack(5_000_000)))
    kept.close()


def test_a_bundle_is_bound_by_what_it_holds_and_not_by_what_it_states(monkeypatch, tmp_path):
    monkeypatch.setattr(uploads, "MAX_INFLATED_BYTES", 3_000_000)
    monkeypatch.setattr(uploads, "MAX_JSON_VALUES", 1000)
    kept = Uploads()
    with pytest.raises(TpuprofError, match="larger than an upload may be"):
        kept.add("values.zip", BytesIO(zipped(b"[" + b"[]," * 600 + b"1]")))
    # One that is behind other bytes is a bundle for the reader too.
    with pytest.raises(TpuprofError, match="inflated"):
        kept.add("behind.zip", BytesIO(b"#!/bin/sh\n" + zipped(5_000_000)))
    kept.close()
    path = tmp_path / "small.zip"
    path.write_bytes(
        zipped(100_000_000).replace((100_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    )
    tracemalloc.start()
    with pytest.raises(TpuprofError) as caught:
        read_report(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert caught.value.code is Code.CORRUPT
    assert most < 20_000_000


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_bundle_of_another_packing_is_refused(tmp_path, method):
    with zipfile.ZipFile(tmp_path / "x.zip", "w", method) as bundle:
        bundle.writestr("report.json", b"{}")
    with pytest.raises(TpuprofError, match="packed in another way"):
        read_report(tmp_path / "x.zip")


def test_a_report_of_endless_lists_is_a_clear_error(tmp_path):
    (tmp_path / "x.json").write_text('{"schema": "tpuprof.report/1", "a": ' + "[" * 200_000)
    with pytest.raises(TpuprofError) as caught:
        read_report(tmp_path / "x.json")
    assert caught.value.code is Code.CORRUPT


def test_json_uploads_are_limited_in_values(monkeypatch):
    """A list of empty lists takes some 25 times its size in memory."""
    monkeypatch.setattr(uploads, "MAX_JSON_VALUES", 1000)
    kept = Uploads()
    kept.add("x", BytesIO(b"[" + b"[]," * 400 + b"1]"))
    for data in (b"[" + b"[]," * 600 + b"1]", gzip.compress(b" [" + b"[]," * 600 + b"1]")):
        with pytest.raises(TpuprofError, match="larger than an upload may be"):
            kept.add("x", BytesIO(data))
    kept.close()


def test_an_upload_that_takes_more_memory_than_its_size_says(tmp_path):
    """Five million empty lines of a plane."""
    path = tmp_path / "x"
    lines = b"\x12\x09/host:CPU" + b"\x1a\x00" * 5_000_000
    path.write_bytes(
        b"\x0a"
        + bytes(
            [
                len(lines) & 127 | 128,
                len(lines) >> 7 & 127 | 128,
                len(lines) >> 14 & 127 | 128,
                len(lines) >> 21,
            ]
        )
        + lines
    )
    with pytest.raises(TpuprofError, match=r"cannot be read within 400 MiB .* \[input-too-large\]"):
        trial.refuse_greedy("x", path, 400 * 2**20)
    trial.refuse_greedy("usual", training_trace().write(tmp_path / "y.xplane.pb"))
    # What is wrong with a file is said by whoever reads it next.
    (tmp_path / "z").write_bytes(b"no trace")
    trial.refuse_greedy("z", tmp_path / "z")


def test_of_uploads_one_alone_keeps_its_events(monkeypatch, tmp_path):
    tried = []
    monkeypatch.setattr(store_module, "refuse_greedy", lambda name, path: tried.append(name))
    store = Store([])
    data = training_trace().to_bytes()
    names = [store.upload(name, BytesIO(data)) for name in ("a", "b")]
    for name in names:
        for ask in (store.report, store.details):
            while isinstance(found := ask(name), Loading):
                pass
            assert not isinstance(found, Failure)
    assert tried == names
    assert list(store._details.values) == names[1:]
    store.close()


@pytest.mark.parametrize("ignored", [False, True], ids=["in a terminal", "under nohup"])
def test_a_signal_ends_what_was_uploaded_and_started(tmp_path, trace, ignored):
    """As `kill` and a closed terminal do; under nohup a closed terminal does not."""
    program = """
import signal, sys
if sys.argv[2] == "True":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
from pathlib import Path
from tpuprof_dashboard import serve, viewers
viewers._command = lambda folder, port: [sys.executable, "-m", "http.server", "-b", "127.0.0.1", str(port)]
original = serve.Store
def store(*given):
    made = original(*given)
    import io
    name = made.upload("x", io.BytesIO(b"0"))
    address = made.viewers.open(Path("."))
    print(made.path(name), address, flush=True)
    return made
serve.Store = store
serve.serve([Path(sys.argv[1])], "127.0.0.1", 0, open_browser=False)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(trace), str(ignored)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    path, address = process.stdout.readline().split()
    while "dashboard on" not in process.stderr.readline():
        assert process.poll() is None
    assert Path(path).exists()
    assert answers(address)
    process.send_signal(signal.SIGHUP)
    if ignored:
        state = Path(f"/proc/{process.pid}/status").read_text()
        mask = next(line.split()[1] for line in state.splitlines() if line.startswith("SigIgn"))
        assert int(mask, 16) & 1 << (signal.SIGHUP - 1)
        assert answers(address)
        process.terminate()
    assert process.wait(60) == 0
    assert not Path(path).parent.exists()
    assert not answers(address)
    process.stdout.close()
    process.stderr.close()
