"""Makes the tables of a run by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tpuprof.errors import Code, TpuprofError
from tpuprof.tables.schema import BY_NAME

if TYPE_CHECKING:
    from tpuprof.tables.source import Source


def build_table(source: Source, name: str) -> Any:
    """One table of a run as a `pyarrow.Table`.

    Raises `TpuprofError`: `usage` for a name that the schema lacks, `missing-extra` without pyarrow.
    """
    check_name(name)
    need("pyarrow")
    return _builders()[name](source)


def check_name(name: str) -> None:
    """Raise `TpuprofError` (`usage`) for a name that the schema lacks."""
    if name not in BY_NAME:
        raise TpuprofError(
            Code.USAGE, f"{name}: there is no such table.", f"Tables are {', '.join(sorted(BY_NAME))}."
        )


def empty_table(name: str) -> Any:
    """A table with its columns and no rows, for which no file is read."""
    from tpuprof.tables.columns import arrow_schema

    return arrow_schema(BY_NAME[name]).empty_table()


def need(package: str) -> None:
    """Raise `TpuprofError` (`missing-extra`) where a package for tables is not installed."""
    import importlib

    try:
        importlib.import_module(package)
    except ImportError as error:
        raise TpuprofError(
            Code.MISSING_EXTRA, f"tables need {package}.", "Install it: pip install 'tpuprof[tables]'."
        ) from error


def _builders() -> dict[str, Callable[[Source], Any]]:
    from tpuprof.tables import of_devices, of_hosts, of_reports, of_steps

    homes = (of_steps, of_devices, of_hosts, of_reports)
    return {name: next(getattr(home, name) for home in homes if hasattr(home, name)) for name in BY_NAME}
