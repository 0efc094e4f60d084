"""Preflight's results as text for a terminal. Every number comes from the predictions."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from tpuprof.preflight.combined import Iteration
from tpuprof.preflight.money import NOTE, Cost
from tpuprof.preflight.prediction import (
    TRUST,
    Prediction,
    collectives_by_kind,
    split_ms,
)
from tpuprof.preflight.run import Outcome
from tpuprof.units import MS_PER_S, TERA, format_bytes, format_ms, format_share

ROWS = 8
# Columns of a terminal from which tables hold all that is known (characters).
WIDE = 100
_FIGURES = frozenset(
    {"runs", "each", "in all", "bytes", "times", "compile", "HBM", "step", "exposed", "MFU", "code"}
)
ANSWERED = ("compiled", "out-of-memory")
_PARTS = {"compute": "compute", "collective_exposed": "exposed collectives", "offload_exposed": "exposed host copies",
          "idle": "waiting for HBM prefetch"}  # fmt: skip


def render(outcome: Outcome, console: Console) -> None:
    """One block a target, with the script's graphs above."""
    for (devices, _), trace in outcome.traces.items():
        if trace.source:
            console.print(
                f"[bold]{escape(outcome.variant.label)}[/]: {escape(trace.source)}; no script was run"
            )
            continue
        kinds = "repeats" if trace.is_steady else "never repeated" if trace.trains else "is unknown"
        how = "SPMD over" if trace.spmd else "one program per device of"
        console.print(
            f"[bold]{escape(outcome.variant.label)}[/]: {len(trace.graphs)} distinct graph(s), the step {kinds}; "
            f"{how} {devices} device(s)"
        )
        console.print(barrier_text(trace.barrier), soft_wrap=True)
        for note in trace.notes:
            console.print(escape(note), soft_wrap=True)
        if trace.reads:
            console.print(
                f"{trace.reads} value(s) that the script read were made up (losses 1.0, checks passed)."
            )
        for warning in trace.warnings:
            console.print(f"! {escape(warning)}", soft_wrap=True)
    _predictions(outcome, console)
    if any(found.schedule for found in outcome.predictions):
        console.print(f"\n{TRUST}")


def _predictions(outcome: Outcome, console: Console) -> None:
    """A block for each program, or one for each target where an iteration has many of them."""
    from tpuprof.preflight.render_many import MANY, render_many

    iterations = outcome.iterations()
    many = {each.target for each in iterations if len(each.parts) > MANY}
    for found in outcome.predictions:
        if found.compiled.target.name not in many:
            console.print()
            render_prediction(found, console, outcome.trace_of(found).trains)
    for each in iterations:
        if each.target in many:
            console.print()
            render_many(each, console)
        elif len(each.parts) > 1 or each.left_out:
            console.print()
            render_iteration(each, console)


def barrier_text(barrier: dict[str, Any]) -> str:
    """What became of the files the script wrote, and of its network."""
    files = {
        "overlay": "What it wrote went to memory and is gone: no file of yours was changed.",
        "landlock": "The system refused all writes to your files.",
    }.get(str(barrier.get("files")), "Nothing kept its writes from your files.")
    closed = barrier.get("network") == "closed"
    return f"The script's Python ran. {files} Its network was {'closed' if closed else 'open (--network)'}."


def render_iteration(each: Iteration, console: Console) -> None:
    """The graphs of one iteration together."""
    runs = ", ".join(f"{count} x graph {found.compiled.graph.number}" for found, count in each.parts)
    small = f" ({each.left_out} graph(s) of scalars left out)" if each.left_out else ""
    time = f"predicted {format_ms(each.step_ms)}" if each.step_ms is not None else "time unavailable"
    console.print(
        f"[bold]{escape(each.target)}[/], one iteration: {runs}{small}: {time}; {each.verdict}",
        soft_wrap=True,
    )


def render_prediction(found: Prediction, console: Console, trains: bool = True) -> None:
    """One target: verdict, memory, time, collectives."""
    compiled = found.compiled
    used = compiled.graph.devices(compiled.target.devices)
    console.print(
        f"[bold]{escape(compiled.target.name)}[/] ({compiled.target.topology}, {used} of {compiled.target.devices} "
        f"device(s)), graph {compiled.graph.number}: {verdict(found, trains)}",
        soft_wrap=True,
    )
    if compiled.status not in ANSWERED:
        console.print(f"  {escape(compiled.error[:600])}", soft_wrap=True)
        return
    cached = " (from cache)" if compiled.cached else ""
    console.print(f"  compile {compiled.seconds:.1f} s{cached}")
    render_memory(found, console)
    _time(found, console)
    _collectives(found, console)
    for warning in found.warnings:
        console.print(f"  ! {escape(warning)}", soft_wrap=True)


def verdict(found: Prediction, trains: bool = True) -> str:
    """Fits or not and by how much; the status where the compiler gave no answer."""
    return Iteration(found.compiled.target.name, [(found, 1)], found, trains).verdict


def render_memory(found: Prediction, console: Console) -> None:
    """What a program needs of the HBM, by kind, and the largest buffers."""
    memory = found.memory
    if memory is None:
        return
    parts = ", ".join(
        f"{kind} {format_bytes(size)}" for kind, size in memory.kinds.items() if size or kind != "host"
    )
    total = format_bytes(memory.total) if memory.total is not None else "unavailable"
    console.print(f"  HBM {total} a device: {parts}", soft_wrap=True)
    columns = ["largest buffers", "kind", "bytes", "made at", "shape"]
    rows = [
        [each.name, each.kind, format_bytes(each.bytes), short_source(each.source) or each.op_name,
         each.shape.split("{")[0]]
        for each in memory.buffers[:ROWS]
    ]  # fmt: skip
    table(console, columns, rows)


def table(console: Console, columns: list[str], rows: list[list[str]], narrow: int = -1) -> None:
    """A table whose text columns share the space that its figures leave; `narrow` of them on a narrow terminal."""
    if console.width < WIDE:
        columns, rows = columns[:narrow], [row[:narrow] for row in rows]
    made = Table(box=None, padding=(0, 1), pad_edge=False)
    for column in columns:
        figures = column in _FIGURES or "/" in column
        made.add_column(
            column,
            justify="right" if figures else "left",
            overflow="fold",
            no_wrap=figures or column == "kind",
        )
    for row in rows:
        made.add_row(*(escape(cell) for cell in row))
    console.print(Padding(made, (0, 0, 0, 2)))


def short_source(source: str) -> str:
    """`folder/file:line` of a source path: enough to find it, short enough for a table."""
    return "/".join(source.replace("\\", "/").split("/")[-2:])


def _time(found: Prediction, console: Console) -> None:
    if found.schedule is None or found.step_ms is None:
        return
    parts = [
        f"{_PARTS[key]} {format_ms(value)}"
        for key, value in split_ms(found.schedule).items()
        if value or key == "compute"
    ]
    bound = (
        f", {format_share(found.mfu_bound)} MFU if it takes that long" if found.mfu_bound is not None else ""
    )
    console.print(f"  predicted step {format_ms(found.step_ms)}: {', '.join(parts)}{bound}", soft_wrap=True)
    if found.flops is not None:
        console.print(f"  {found.flops / TERA:.3g} TFLOP per device and step in matrix products")
    for direction, size in sorted(found.schedule.offload.items()):
        console.print(f"  host offload: {format_bytes(size)} per step {direction.replace('_', ' ')}")


def _collectives(found: Prediction, console: Console) -> None:
    if not found.collectives:
        return
    kinds = "; ".join(
        f"{count} {kind} of {format_bytes(size)}"
        for kind, (count, size) in collectives_by_kind(found.collectives).items()
    )
    console.print(f"  collectives per step: {kinds}", soft_wrap=True)
    columns = ["largest collectives", "times", "bytes", "what", "from"]
    rows = [
        [f"{row.kind} (async)" if row.asynchronous else row.kind, str(row.count), format_bytes(row.bytes),
         row.weight or row.op, short_source(row.source)]
        for row in found.collectives[:ROWS]
    ]  # fmt: skip
    table(console, columns, rows)


def render_comparison(outcomes: list[Outcome], console: Console) -> None:
    """Steady steps of several variants side by side, one row a target and variant."""
    columns = ["variant", "verdict", "HBM", "step", "exposed", "MFU", "compile", "code"]
    names = [found.compiled.target.name for found in outcomes[0].predictions]
    console.print("Step, exposed time and MFU are predicted.")
    for name in dict.fromkeys(names):
        rows = [
            _comparison_row(outcome, each)
            for outcome in outcomes
            for each in outcome.iterations()
            if each.target == name
        ]
        console.print(f"[bold]{escape(name)}[/]")
        table(console, columns, rows)


def render_costs(rows: list[Cost], notes: list[str], console: Console) -> None:
    """Each variant on each slice by predicted speed and money, and what that comes to."""
    tokens = any(row.tokens_per_s is not None for row in rows)
    work = "tokens" if tokens else "samples" if any(row.samples_per_s is not None for row in rows) else ""
    columns = [
        "slice",
        "fits",
        "step",
        f"{work or 'steps'}/s",
        "USD/hour",
        f"{work or 'steps'}/USD",
        "variant",
    ]
    cells = []
    for row in rows:
        speed = row.tokens_per_s if tokens else row.samples_per_s
        money = row.tokens_per_usd if tokens else row.samples_per_usd
        if not work:
            speed = MS_PER_S / row.step_ms if row.step_ms and row.fits else None
            money = row.steps_per_usd
        fits = {True: "yes", False: "no", None: "unknown"}[row.fits]
        step = format_ms(row.step_ms) if row.step_ms is not None else "-"
        cells.append([row.target, fits, step, *map(_amount, (speed, row.usd_per_hour, money)), row.variant])
    if len({row.variant for row in rows}) == 1:
        columns, cells = columns[:-1], [row[:-1] for row in cells]
    console.print("\n[bold]By money[/]")
    table(console, columns, cells, narrow=len(columns))
    for note in notes:
        console.print(f"  {escape(note)}", soft_wrap=True)
    console.print(NOTE)


def _amount(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def render_sweep(outcomes: list[Outcome], console: Console) -> None:
    """The comparison table of all values, and the largest that fits on each target."""
    render_comparison(outcomes, console)
    for name, note in sweep_notes(outcomes).items():
        console.print(f"{escape(name)}: {escape(note)}")


def sweep_notes(outcomes: list[Outcome]) -> dict[str, str]:
    """What a sweep found, by target: the limit, or that it is beyond the last value, or that nothing changed."""
    notes = {}
    for name, label in largest_fitting(outcomes).items():
        tried = [
            (outcome.variant.label, each)
            for outcome in outcomes
            for each in outcome.iterations()
            if each.target == name
        ]
        programs = {tuple(found.compiled.graph.fingerprint for found, _ in each.parts) for _, each in tried}
        if len(tried) > 1 and len(programs) == 1:
            notes[name] = "every value gives the same program: the script does not use this setting"
        elif not label:
            notes[name] = "none fits" if tried[0][1].exit_status == 1 else "no value has a verdict"
        elif label == tried[-1][0]:
            notes[name] = f"{label} fits, and is the largest value that was tried: the limit was not found"
        else:
            notes[name] = f"{label} is the largest that fits; {tried[-1][0]}: {tried[-1][1].verdict}"
    return notes


def largest_fitting(outcomes: list[Outcome]) -> dict[str, str]:
    """The last value that fits, by target; empty text where none does."""
    best: dict[str, str] = {}
    for outcome in outcomes:
        for each in outcome.iterations():
            best.setdefault(each.target, "")
            if each.memory is not None and each.memory.fits:
                best[each.target] = outcome.variant.label
    return best


def _comparison_row(outcome: Outcome, each: Iteration) -> list[str]:
    memory = each.memory
    code = memory.kinds.get("code") if memory else None
    schedules = [(part.schedule, count) for part, count in each.parts if part.schedule]
    exposed = sum(
        value * count
        for schedule, count in schedules
        for key, value in split_ms(schedule).items()
        if key.endswith("_exposed")
    )
    return [
        outcome.variant.label,
        each.verdict.split(",")[0].split(":")[0],
        format_bytes(memory.total) if memory and memory.total is not None else "-",
        format_ms(each.step_ms) if each.step_ms is not None else "-",
        format_ms(exposed) if schedules else "-",
        format_share(each.mfu_bound) if each.mfu_bound is not None else "-",
        f"{sum(part.compiled.seconds for part, _ in each.parts):.1f} s",
        format_bytes(code) if code is not None else "-",
    ]
