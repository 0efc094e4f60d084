"""What can go wrong while a file is opened and unpacked, as errors with stable codes."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tpuprof.errors import Code, TpuprofError


@contextmanager
def reading(path: Path, what: str = "a profile") -> Iterator[None]:
    """Raise `TpuprofError` where a file is missing or unreadable, or its compressed data is cut, damaged or endless.

    `what` is what the file should be.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise TpuprofError(Code.NOT_FOUND, f"{path}: no such file or folder.", "Check the path.") from error
    except (zlib.error, EOFError) as error:
        raise TpuprofError(
            Code.TRUNCATED, f"{path}: the compressed data ends early or is damaged.", "Copy the file again."
        ) from error
    except OverflowError as error:
        raise TpuprofError(
            Code.TOO_LARGE, f"{path}: the compressed data unpacks to {error}.", f"Check that it is {what}."
        ) from error
    except OSError as error:
        raise TpuprofError(
            Code.UNREADABLE, f"{path}: cannot be read ({error.strerror or error}).", "Check its permissions."
        ) from error


def not_regular(path: Path) -> TpuprofError:
    """The error of a folder, pipe or device where a file should be."""
    if path.is_dir():
        return TpuprofError(
            Code.UNREADABLE,
            f"{path}: this is a folder, though named as a profile.",
            "Copy the profile again.",
        )
    return TpuprofError(
        Code.UNREADABLE, f"{path}: this is not a regular file.", "Copy the profile to a file, and give that."
    )
