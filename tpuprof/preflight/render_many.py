"""An iteration of many programs as text: TorchTPU's eager step runs one for each op."""

from __future__ import annotations

import os

from rich.console import Console
from rich.markup import escape

from tpuprof.preflight.combined import Iteration
from tpuprof.preflight.prediction import Prediction, schedule_warnings
from tpuprof.preflight.render import ANSWERED, ROWS, render_memory, short_source, table
from tpuprof.units import format_ms, format_share

# Programs of one iteration beyond which they are rows of one table.
MANY = 4
_OWN = f"torch_tpu{os.sep}"


def render_many(each: Iteration, console: Console) -> None:
    """An iteration of many programs: what they come to together, the longest, and the one that needs most memory."""
    target, runs = each.main.compiled.target, sum(count for _, count in each.parts)
    used = each.main.compiled.graph.devices(target.devices)
    small = f" ({each.left_out} graph(s) of scalars left out)" if each.left_out else ""
    console.print(
        f"[bold]{escape(each.target)}[/] ({target.topology}, {used} of {target.devices} device(s)), one iteration: "
        f"{runs} runs of {len(each.parts)} programs{small}: {each.verdict}",
        soft_wrap=True,
    )
    failed = [found.compiled for found, _ in each.parts if found.compiled.status not in ANSWERED]
    for one in failed[:1]:
        console.print(f"  graph {one.graph.number} ({escape(one.graph.kind)}): {escape(one.error[:600])}")
    seconds = sum(found.compiled.seconds for found, _ in each.parts)
    console.print(f"  compile {seconds:.1f} s, all programs")
    largest = each.largest
    if largest is not None:
        console.print(f"  most memory: while {escape(largest.compiled.graph.kind)} runs")
        render_memory(largest, console)
    if each.step_ms is not None:
        mfu = (
            f", {format_share(each.mfu_bound)} MFU if it takes that long"
            if each.mfu_bound is not None
            else ""
        )
        console.print(f"  predicted step {format_ms(each.step_ms)}, the sum of all runs{mfu}", soft_wrap=True)
    columns = ["programs that take longest", "runs", "each", "in all", "made at"]
    timed = [(found, count, found.step_ms) for found, count in each.parts if found.step_ms is not None]
    timed.sort(key=lambda row: -row[2] * row[1])
    rows = [
        [found.compiled.graph.kind, str(count), format_ms(ms), format_ms(ms * count), _made_at(found)]
        for found, count, ms in timed[:ROWS]
    ]
    table(console, columns, rows)
    for warning in schedule_warnings(
        [(found.schedule, count) for found, count in each.parts if found.schedule]
    ):
        console.print(f"  ! {escape(warning)}", soft_wrap=True)


def _made_at(found: Prediction) -> str:
    """The first source line that a program's instructions name; TorchTPU's own say nothing of the script."""
    sources = [each.source for each in found.module.instructions() if each.source] if found.module else []
    return next((short_source(each) for each in sources if not each.startswith(_OWN)), "")
