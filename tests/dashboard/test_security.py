"""Who may ask, what may be read, and what an upload may be."""

import gzip

import pytest

from tests.dashboard.conftest import training_trace

pytest.importorskip("dash")
from tpuprof_dashboard import security
from tpuprof_dashboard.app import create_app
from tpuprof_dashboard.security import COOKIE, Guard, check_upload, inside
from tpuprof_dashboard.store import Failure, Store

from tpuprof.errors import TpuprofError


@pytest.fixture
def trace(tmp_path):
    return training_trace().write(tmp_path / "run" / "x.xplane.pb")


def client(trace, guard=None):
    return create_app(Store([trace]), guard).server.test_client()


@pytest.mark.parametrize("host", ["127.0.0.1:8050", "localhost", "[::1]:8050", "LOCALHOST:1"])
def test_loopback_names_are_answered(trace, host):
    assert client(trace).get("/", headers={"Host": host}).status_code == 200


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
    assert cookie.startswith(f"{COOKIE}=secret-token")
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


@pytest.mark.parametrize(
    "path", ["/assets/../../pyproject.toml", "/assets/%2e%2e/app.py", "/assets/..%2fapp.py"]
)
def test_paths_do_not_lead_out_of_the_assets(trace, path):
    answer = client(trace).get(path, headers={"Host": "localhost"})
    # Dash answers unknown paths with its own page.
    assert b"import" not in answer.data
    assert b"[project]" not in answer.data


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


def test_uploads_are_limited_in_number():
    check_upload("x", b"", security.MAX_UPLOADS - 1)
    with pytest.raises(TpuprofError, match="uploads are kept at most"):
        check_upload("x", b"", security.MAX_UPLOADS)


def test_uploads_are_limited_in_size(monkeypatch):
    monkeypatch.setattr(security, "MAX_UPLOAD_BYTES", 10)
    check_upload("x", b"0" * 10, 0)
    with pytest.raises(TpuprofError, match="larger than an upload may be"):
        check_upload("x", b"0" * 11, 0)


def test_uploads_are_limited_in_what_they_inflate_to(monkeypatch):
    monkeypatch.setattr(security, "MAX_INFLATED_BYTES", 3_000_000)
    check_upload("x", gzip.compress(bytes(2_900_000)), 0)
    with pytest.raises(TpuprofError, match="inflated"):
        check_upload("x", gzip.compress(bytes(5_000_000)), 0)
