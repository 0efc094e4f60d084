"""Tells a saved Report from a run, without importing what reads either."""

from __future__ import annotations

from pathlib import Path

from tpuprof.run_folder import REPORT_SCHEMA_NAME

# The schema is a Report's first key: it stands within these first bytes.
_HEAD_BYTES = 4096


def is_saved_report(path: Path) -> bool:
    """Whether a path is a file that may hold a saved Report: JSON, or a bundle with one inside."""
    if not path.is_file():
        return False
    if path.suffix == ".zip":
        import zipfile

        return zipfile.is_zipfile(path)
    if path.suffix != ".json":
        return False
    with path.open("rb") as file:
        return REPORT_SCHEMA_NAME.encode() in file.read(_HEAD_BYTES)
