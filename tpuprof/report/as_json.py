"""A Report as JSON text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuprof.report.schema import Report


def to_json(report: Report) -> str:
    """The report as JSON; numbers that are not finite do not occur."""
    return json.dumps(report.to_dict(), indent=1, allow_nan=False) + "\n"
