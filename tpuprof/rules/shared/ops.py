"""What the rules on device work share: ops as evidence, with the side of the roofline they lie on."""

from __future__ import annotations

from collections.abc import Sequence

from tpuprof.report.op_hosts import ms_by_host
from tpuprof.report.op_rows import OpRows
from tpuprof.report.schema import Evidence, OpRow
from tpuprof.report.user_frames import is_users_line
from tpuprof.units import format_share

# Ops listed as evidence (rows).
SHOWN = 5
# Padding worth a word (padded bytes over bytes).
SHOWN_FROM_PADDING = 1.05


def op_evidence(rows: Sequence[OpRow]) -> list[Evidence]:
    """The ops that take most time, each with what limits it and how near to that it comes.

    At least one comes from a line of the program's own files, where any of them does.
    """
    shown = list(rows[:SHOWN])
    own = next((op for op in rows if is_users_line(op.source)), None)
    if own is not None and own not in shown:
        shown[-1] = own
    return [timed(op, _text(op)) for op in shown]


def timed(op: OpRow, text: str) -> Evidence:
    """An op with its time per step and device; without steps, with that of all devices over the whole capture.

    It has a host where one of several alone runs it.
    """
    hosts = list(ms_by_host(op))
    host = hosts[0] if len(hosts) == 1 else ""
    if op.self_ms_per_step is None:
        return Evidence(text, op.self_ms, "ms over the capture, all devices", host, source=op.source)
    return Evidence(text, op.self_ms_per_step, "ms per step and device", host, source=op.source)


def ms_of(rows: OpRows, left: float = 0.0) -> dict[tuple[str, str], float]:
    """Self time that goes where ops of which so much is left (share) are dealt with, by program and op."""
    columns = (rows.column(name) for name in ("program", "name", "self_ms"))
    return {(program, name): ms * (1 - left) for program, name, ms in zip(*columns, strict=True)}


def _text(op: OpRow) -> str:
    parts = [op.name]
    if op.matmul_type:
        parts.append(f"matrix multiplication in {op.matmul_type}")
    if op.kernel:
        parts.append(f"kernel {op.kernel}")
    if op.padding is not None and op.padding >= SHOWN_FROM_PADDING:
        parts.append(f"{op.padding:.2f} times its bytes once padded")
    if op.limit and op.roofline is not None:
        parts.append(f"at {format_share(op.roofline)} of what {op.limit} allows")
    return ", ".join(parts)
