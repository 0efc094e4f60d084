"""Writes the tables of a run as Parquet files, one per table."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuprof.errors import Code, TpuprofError, writing
from tpuprof.tables.build import build_table, check_name, need
from tpuprof.tables.schema import TABLES

if TYPE_CHECKING:
    from tpuprof.tables.source import Source

SUFFIX = ".parquet"
# Fast to read and about as small as gzip here: op events of a v6e capture take 6 bytes each.
_COMPRESSION = "zstd"


def export_parquet(
    source: Source, folder: Path, names: Iterable[str] = (), *, force: bool = False
) -> dict[Path, int]:
    """Write tables (all, or those named) as `TABLE.parquet` in a folder; the rows of each file written.

    A table without rows is written too, so that its schema is there. Raises `TpuprofError`: `output-exists` for a file
    that is there without `force`, `output-failed`, `usage` for a name that the schema lacks; then nothing is written.
    """
    need("pyarrow")
    wanted = list(names) or [table.name for table in TABLES]
    # All are checked before the first is written.
    for name in wanted:
        check_name(name)
    places = {name: folder / (name + SUFFIX) for name in wanted}
    there = [path for path in places.values() if path.exists()]
    if there and not force:
        raise TpuprofError(Code.OUTPUT_EXISTS, f"{there[0]}: this file exists.", "Add --force to replace it.")
    tables = ((path, build_table(source, name)) for name, path in places.items())
    written = {}
    for path, table in tables:
        _write(path, table)
        written[path] = len(table)
    return written


def _write(path: Path, table: Any) -> None:
    import pyarrow.parquet as pq

    unfinished = path.with_name(path.name + ".unfinished")
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            # Without Arrow's own schema, readers see plain text, not Arrow's dictionaries.
            with pq.ParquetWriter(
                unfinished, table.schema, compression=_COMPRESSION, store_schema=False
            ) as writer:
                writer.write_table(table)
                writer.add_key_value_metadata(table.schema.metadata)
            unfinished.replace(path)
    finally:
        # Below a file nothing can be removed either.
        with suppress(OSError):
            unfinished.unlink()
