"""Tells URLs from paths, and shows them without what is secret in them. Imports nothing of any store."""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit, urlunsplit

# Scheme -> the extra of tpuprof that brings its client.
SCHEMES = {
    "gs": "gcs",
    "gcs": "gcs",
    "s3": "s3",
    "az": "azure",
    "abfs": "azure",
    "abfss": "azure",
    "http": "http",
    "https": "http",
}
AZURE = ("az", "abfs", "abfss")
# `Path` makes one slash of two.
_URL = re.compile(rf"^({'|'.join(SCHEMES)}):/+(?=[^/])")


def url_of(path: str | os.PathLike[str]) -> str | None:
    """The URL that a path given on the command line is, None where it is a path of this machine."""
    text = os.fspath(path)
    found = _URL.match(text)
    if found is None or os.path.exists(text):
        return None
    return f"{found[1]}://{text[found.end() :]}"


def scheme_of(url: str) -> str:
    """The part before `://`."""
    return url.partition("://")[0]


def shown(url: str) -> str:
    """The URL as it may stand in a message or report: without user, password, query (a signature) and fragment."""
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    # What stands there in Azure's URLs is the container.
    netloc = f"{user}@{host}" if user and parts.scheme in AZURE and ":" not in user else host
    return urlunsplit((parts.scheme, netloc, parts.path, "", ""))


def joined(url: str, below: str) -> str:
    """The URL of what lies below a folder; a query stays at its end."""
    parts = urlsplit(url)
    path = f"{parts.path.rstrip('/')}/{below.lstrip('/')}"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def name_of(url: str) -> str:
    """The last part of its path, the bucket's name where it has none."""
    parts = urlsplit(url)
    name = parts.path.rstrip("/").rpartition("/")[2] or parts.netloc.rpartition("@")[2]
    return name if name not in ("", ".", "..") else "run"
