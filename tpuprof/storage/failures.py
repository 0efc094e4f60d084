"""What a store answers instead of bytes: one error with a stable code, and a bounded number of further tries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from tpuprof.errors import Code, TpuprofError
from tpuprof.storage.address import AZURE, scheme_of, shown

_T = TypeVar("_T")
# Pauses before each further try (s). A bucket that throttles asks for exponential pauses; three of them are the first
# steps of those, and a user still waits less than ten seconds for a store that never answers.
PAUSES_S = [0.5, 1.5, 4.0]
_MISSING, _THROTTLED, _FORBIDDEN = (404, 410), (429, 503), (401, 403, 407)
# What clients name their errors where they give no status.
_NO_CREDENTIALS = (
    "NoCredentialsError",
    "DefaultCredentialsError",
    "PartialCredentialsError",
    "RefreshError",
    "ClientAuthenticationError",
)
# adlfs's one error for an account that is not given, or whose connection string cannot be read.
_NO_ACCOUNT = "unable to connect to account"
_CUT_OFF = ("ClientPayloadError", "IncompleteReadError", "ContentLengthError", "ResponseStreamingError")
# fsspec says "not found" of a web server that does not answer.
_NO_ANSWER = (
    "ClientConnectorError",
    "ClientConnectorDNSError",
    "ServerTimeoutError",
    "ServerDisconnectedError",
)
# Clients that try again themselves, with longer and longer pauses: gcsfs six times, for half a minute. Our tries on top
# would keep a user waiting for minutes. They do not see that an object was cut off.
_TRIES_ITSELF = ("gs", "gcs")
_AGAIN = frozenset({Code.STORAGE_THROTTLED, Code.STORAGE_TRUNCATED, Code.STORAGE_UNREACHABLE})


class TruncatedError(OSError):
    """Fewer bytes came than the store says the object has."""


def tried(url: str, work: Callable[[], _T]) -> _T:
    """What `work` gives; tried again where the store is busy or cut it off.

    Raises `TpuprofError`: `input-not-found`, `storage-forbidden`, `storage-throttled`, `storage-truncated`,
    `storage-unreachable`.
    """
    for pause in [*PAUSES_S, None]:
        try:
            return work()
        except (TpuprofError, ImportError):
            raise
        except Exception as error:
            found = failure(url, error)
            tried_before = scheme_of(url) in _TRIES_ITSELF and found.code is not Code.STORAGE_TRUNCATED
            if found.code not in _AGAIN or tried_before or pause is None:
                raise found from None  # the client's own text may hold a signed URL
            time.sleep(pause)
    raise AssertionError("unreachable")


def failure(url: str, error: BaseException) -> TpuprofError:
    """The error a user sees. Texts of the client are left out: they hold signed URLs and tokens."""
    place, status, names = shown(url), status_of(error), {type(each).__name__ for each in _chain(error)}
    missing = status is None and isinstance(error, FileNotFoundError) and not names & set(_NO_ANSWER)
    if status in _MISSING or missing:
        return TpuprofError(Code.NOT_FOUND, f"{place}: no such object or folder.", "Check the URL.")
    if scheme_of(url) in AZURE and isinstance(error, ValueError) and str(error).startswith(_NO_ACCOUNT):
        return TpuprofError(
            Code.STORAGE_FORBIDDEN,
            f"{place}: no storage account of Azure is known.",
            "Set AZURE_STORAGE_ACCOUNT_NAME or AZURE_STORAGE_CONNECTION_STRING, or name the account in the URL: "
            "abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH.",
        )
    if status in _FORBIDDEN or isinstance(error, PermissionError) or names & set(_NO_CREDENTIALS):
        return TpuprofError(
            Code.STORAGE_FORBIDDEN,
            f"{place}: access was denied{_said(status)}.",
            "Log in with the platform's own tool (gcloud auth application-default login, aws configure, az login), "
            "or ask for read access.",
        )
    if status in _THROTTLED:
        return TpuprofError(
            Code.STORAGE_THROTTLED,
            f"{place}: the store asks for fewer requests{_said(status)}, also after several pauses.",
            "Try again later, or with fewer workers.",
        )
    if isinstance(error, TruncatedError) or names & set(_CUT_OFF):
        return TpuprofError(
            Code.STORAGE_TRUNCATED,
            f"{place}: the store sent fewer bytes than the object has, {len(PAUSES_S) + 1} times.",
            "Check that the upload is complete, then try again.",
        )
    return TpuprofError(
        Code.STORAGE_UNREACHABLE,
        f"{place}: the store did not answer{_said(status) or f' ({type(error).__name__})'}.",
        "Check the address and the network.",
    )


def _said(status: int | None) -> str:
    return f" (status {status})" if status is not None else ""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def status_of(error: BaseException) -> int | None:
    """The HTTP status behind an error of aiohttp, gcsfs, botocore or Azure; None where none says."""
    for each in _chain(error):
        response: Any = getattr(each, "response", None)
        if isinstance(response, dict):
            found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        else:
            found = getattr(each, "status", None) or getattr(each, "status_code", None)
            found = found or getattr(each, "code", None)
        if isinstance(found, str) and found.isdigit():
            found = int(found)
        if isinstance(found, int) and 400 <= found < 600:
            return found
    return None
