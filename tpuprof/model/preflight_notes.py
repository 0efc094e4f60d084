"""What a preflight said of the script and its variants: read from `tpuprof/preflight.json` of the run folder.

The file is what `tpuprof preflight ... --json` prints. A predicted run tells of itself in run.json.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tpuprof.json_notes import read_json
from tpuprof.records import record
from tpuprof.run_folder import PREFLIGHT, PREFLIGHT_SCHEMA

# What that command writes as `schema`; a later one may mean other things by the same names.


@record(frozen=True)
class Variant:
    """One variant of a script, compiled for one slice; None is what the compiler gave no answer to.

    `bytes` and `capacity` are HBM of one device, `fits` whether the one is within the other.
    """

    label: str
    target: str
    compile_seconds: float | None
    bytes: int | None
    capacity: int | None
    fits: bool | None
    step_ms: float | None


def read_preflight(run_folder: Path | None, info: dict[str, Any]) -> tuple[list[Variant], list[str]]:
    """Every variant and slice, the script as it is first, and what is wrong with the file, if anything."""
    noted = info.get("preflight")
    own = [_variant("this script", noted)] if isinstance(noted, dict) else []
    path = run_folder / PREFLIGHT if run_folder is not None else None
    if path is None or not path.is_file():
        return own, []
    try:
        told = read_json(path)
        if told["schema"] != PREFLIGHT_SCHEMA:
            return own, [f"{path} has schema {told['schema']!r}, and this tpuprof reads {PREFLIGHT_SCHEMA!r}"]
        rows = [
            _variant(str(variant["label"]), target)
            for variant in told["variants"]
            for target in variant["targets"]
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return own, [f"{path} cannot be read as the output of `tpuprof preflight --json` ({error})"]
    return [*own, *rows], []


def _variant(label: str, told: dict[str, Any]) -> Variant:
    memory, predicted = _table(told.get("memory")), _table(told.get("predicted"))
    return Variant(
        label=label,
        target=str(told.get("target", "")),
        compile_seconds=_number(told.get("compile_seconds")),
        bytes=_whole(memory.get("total_bytes")),
        capacity=_whole(memory.get("capacity_bytes")),
        fits=memory["fits"] if isinstance(memory.get("fits"), bool) else None,
        step_ms=_number(predicted.get("step_ms")),
    )


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, (int, float)) else None
