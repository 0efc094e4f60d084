"""A Report for people at a terminal: verdict, findings, breakdown, slowest steps, compiles, ops, annotations."""

from __future__ import annotations

import re

from rich.console import Console, Group, RenderableType
from rich.markup import escape as escape_markup
from rich.table import Table
from rich.text import Text

from tpuprof.parts import listed_as, part_of
from tpuprof.render.content import devices_seen, shown_compiles
from tpuprof.render.facts import fact_lines
from tpuprof.render.op_time import IN_ALL, annotation_ms, largest_first, op_ms, ops_ms, over, per_step
from tpuprof.render.savings import saved_amount, tried
from tpuprof.render.triage import verdict_note
from tpuprof.report.labels import (
    below_findings,
    host_count,
    main_places,
    method_title,
    nothing_failed,
    of_steps,
    places_text,
    read_times,
    reads_title,
    samples_per_second,
    shared_saving,
    transfers_title,
)
from tpuprof.report.op_hosts import has_several_hosts, hosts_of
from tpuprof.report.schema import CompileRow, Finding, Report, StepRow, TransferRow
from tpuprof.report.step_times import step_times, step_to_compare
from tpuprof.shown_text import printable
from tpuprof.units import counted, format_bytes, format_ms, format_share

# Rows shown of each table; the JSON has all (rows).
ROWS_SHOWN = 8
FINDINGS_SHOWN = 3
BAR_CELLS = 48
# A frame's path without all but its last two parts: `train (demo/train.py:33)`.
_LEADING_FOLDERS = re.compile(r"\((?:.*/)?(?=[^/]+/[^/]+$)")
_NAME_CELLS = 44
# Parts below this share are left out of the bar and listed as "below" (share of step time).
BAR_FROM_SHARE = 0.005

# Columns that hold numbers.
_TIMES = (
    "wall",
    "vs median",
    "vs mean",
    "duration",
    "self",
    "share",
    "host",
    "device",
    "exposed per step",
    "hidden per step",
)
_RIGHT = frozenset(
    (*_TIMES, "blocked per step", "blocked in the whole capture", "times", "times in all", "bytes", "GB/s")
)
_OTHER_STATUSES = (
    ("rules passed", "passed"),
    ("not applicable", "not_applicable"),
    ("unavailable", "unavailable"),
    ("in error", "error"),
)
_GLYPHS = "█▓▒░▚▞▦▩▤▥▧▨"


def render(report: Report, console: Console) -> None:
    """Print a report to a rich console. Names from the trace are escaped."""
    console.print(Group(*_sections(report, console.width)))


def _sections(report: Report, width: int) -> list[RenderableType]:
    sections: list[RenderableType] = []
    if report.predicted:
        sections.append(
            Text("PREDICTED: device times are the compiler's estimate, not a measurement.", style="bold red")
        )
    sections += [
        Text(printable(report.verdict.sentence), style="bold"),
        Text(printable(_headline(report)), style="dim"),
        Text(),
    ]
    sections += _findings(report)
    if report.breakdown:
        sections += [*_breakdown(report, min(BAR_CELLS, width)), Text()]
    sections += _facts(report)
    if report.steps.per_step and not report.steps.whole_capture:
        sections.append(_slowest_steps(report))
    if report.compiles:
        sections.append(_compiles(report))
    if report.ops:
        sections.append(_ops(report))
    if report.host_reads:
        sections.append(_host_reads(report))
    if report.offload:
        sections.append(_transfers("Host offload", "direction", report.offload))
    if report.collectives:
        sections.append(_transfers("Collectives", "kind", report.collectives))
    if report.annotations:
        sections.append(_annotations(report))
    sections += _measure_next(report)
    return sections + _warnings(report)


def _warnings(report: Report) -> list[RenderableType]:
    from tpuprof.render.text_triage import warning_lines

    return warning_lines(report)


def _measure_next(report: Report) -> list[RenderableType]:
    from tpuprof.render.text_triage import measure_next_lines

    return measure_next_lines(report)


def _facts(report: Report) -> list[RenderableType]:
    lines = fact_lines(report)
    if not lines:
        return []
    table = Table(title="Why", title_justify="left", box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    shown = ""
    for subject, line in lines:
        table.add_row("" if subject == shown else subject, Text(printable(line)))
        shown = subject
    return [table, Text()]


def _headline(report: Report) -> str:
    steps, environment = report.steps, report.environment
    devices = f"{devices_seen(report, 'x')}{_on_hosts(report)}"
    if steps.median_ms is None or steps.p95_ms is None:
        span = f", {format_ms(steps.per_step[0].wall_ms)}" if steps.whole_capture else ""
        return f"{devices}, {environment['framework']}{span}; {steps.note}"
    source = f"steps {'' if steps.method.startswith('inferred') else 'from '}{steps.method}"
    return (
        f"{counted(steps.count, 'step')}, {step_times(report)}{samples_per_second(report)}; {devices}, "
        f"{environment['framework']}; {source} ({steps.confidence} confidence)"
    )


def _on_hosts(report: Report) -> str:
    """Which hosts that is, empty of one."""
    hosts = host_count(report)
    if hosts == counted(1, "host"):
        return ""
    return f" {'in' if ' processes ' in hosts else 'on'} {hosts}"


def _findings(report: Report) -> list[RenderableType]:
    failed = [finding for finding in report.findings if finding.status == "failed"]
    if not report.findings:
        return []
    lines: list[RenderableType] = [Text("What to fix", style="bold")]
    for number, finding in enumerate(failed[:FINDINGS_SHOWN], 1):
        lines.append(Text(f"{number}. {printable(finding.title)}", style="red"))
        lines.append(Text(f"   {_saving(finding)}  [{finding.rule}, {finding.confidence} confidence]"))
        lines += _where(finding)
        lines += [Text(f"   Tried: {printable(each)}") for each in tried(finding)]
        if shared_saving(finding):
            lines.append(Text(f"   {printable(shared_saving(finding))}"))
        places = main_places(finding)
        # Of a pod, the line stands with its hosts.
        if places and finding.on_hosts is None:
            lines.append(Text(f"   at {printable(places_text(places))}", style="dim"))
        if finding.fix:
            lines.append(Text(f"   {finding.fix.text}"))
    if len(failed) > FINDINGS_SHOWN:
        lines.append(Text(f"and {len(failed) - FINDINGS_SHOWN} more (--json has all)", style="dim"))
    if failed and (note := below_findings(report)):
        lines.append(Text(note))
    if not failed:
        said = nothing_failed(report)
        lines.append(Text(printable(said), style="green" if said.startswith("Nothing") else ""))
    counts = [
        f"{count} {word}"
        for word, status in _OTHER_STATUSES
        if (count := sum(1 for each in report.findings if each.status == status))
    ]
    return [*lines, Text(f"{', '.join(counts)}; `tpuprof rules ID` explains a rule", style="dim"), Text()]


def _where(finding: Finding) -> list[RenderableType]:
    if finding.on_hosts is None:
        return []
    from tpuprof.render.finding_hosts import host_sentences

    return [Text(f"   {printable(each)}") for each in host_sentences(finding)]


def _saving(finding: Finding) -> str:
    savings = finding.savings
    if savings is None:
        reason = finding.reason.removeprefix("it cannot be priced: ")
        return f"No price: {printable(reason)}." if reason else "No price."
    note = f"; {savings.note}" if savings.note else ""
    return f"Fixing it saves {saved_amount(savings)} ({method_title(savings)}{note})."


def _breakdown(report: Report, cells: int) -> list[RenderableType]:
    parts = sorted(report.breakdown.items(), key=lambda item: -item[1].share)
    shown = [(name, part) for name, part in parts if part.share >= BAR_FROM_SHARE]
    # Parts are rounded each, so that the bar may be a cell longer.
    bar, legend = Text(no_wrap=True, overflow="crop"), Table.grid(padding=(0, 2))
    for index, (name, part) in enumerate(shown):
        glyph, style = _GLYPHS[index % len(_GLYPHS)], part_of(name).terminal
        bar.append(glyph * round(part.share * cells), style=style)
        share, time = format_share(part.share), format_ms(part.ms_per_step)
        legend.add_row(
            Text(glyph, style=style),
            escape(listed_as(name)),
            Text(share, justify="right"),
            of_steps(f"{time} per step", report),
        )
    hidden = report.tracing_hidden_ms_per_step
    if hidden:
        legend.add_row(
            "",
            "tracing_hidden",
            "",
            of_steps(f"{format_ms(hidden)} per step, behind device work", report),
        )
    note = verdict_note(report)
    title = of_steps("Where a step's time goes", report)
    return [Text(title, style="bold"), bar, legend, *([Text(note)] if note else [])]


def _slowest_steps(report: Report) -> RenderableType:
    of, usual = step_to_compare(report)
    table = _table("Slowest steps", "step", "wall", f"vs {of}", "bound by", "largest parts")
    slowest = report.steps.longest(ROWS_SHOWN)
    many_hosts = len({step.host for step in report.steps.per_step}) > 1
    for step in slowest:
        ratio = f"{step.wall_ms / usual:.2f}x" if usual else ""
        name = f"{step.index} on {escape(step.host)}" if many_hosts else str(step.index)
        table.add_row(name, format_ms(step.wall_ms), ratio, escape(step.bound), escape(_largest_parts(step)))
    return table


def _largest_parts(step: StepRow) -> str:
    parts = sorted(step.breakdown_ms.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{name} {format_ms(ms)}" for name, ms in parts)


def _compiles(report: Report) -> RenderableType:
    table = _table(f"Compiles ({len(report.compiles)})", "step", "duration", "graph hash", "cause", "cut at")
    for each in shown_compiles(report)[:ROWS_SHOWN]:
        step = str(each.step) if each.step is not None else "outside"
        table.add_row(
            step,
            format_ms(each.duration_ms),
            escape(each.graph_hash or "unknown"),
            escape(f"{each.cause.kind}: {each.cause.detail}"),
            escape(_cut_at(each)),
        )
    return _and_more(table, len(report.compiles))


def _cut_at(row: CompileRow) -> str:
    if not row.frames:
        return "unknown"
    return _LEADING_FOLDERS.sub("(", row.frames[0])


def _ops(report: Report) -> RenderableType:
    title = f"Ops by device self time, {over(report)}"
    hosts = ("hosts",) if has_several_hosts(report) else ()
    table = _table(title, "op", *hosts, "self", "share", "times in all", "bytes", "annotation", "source")
    total = ops_ms(report)
    for op in largest_first(report, ROWS_SHOWN):
        size = format_bytes(op.bytes) if op.bytes else ""
        table.add_row(
            escape(_short(op.name)),
            *(escape(_short(hosts_of(op, report))) for _ in hosts),
            format_ms(op_ms(op)),
            format_share(op_ms(op) / total),
            str(op.occurrences),
            size,
            escape(_short(op.annotation)),
            escape(_short(op.source, keep_end=True)),
        )
    return _and_more(table, len(report.ops), report.ops_left_out.ops)


def _host_reads(report: Report) -> RenderableType:
    blocked = of_steps("blocked per step", report)
    table = _table(reads_title(report.host_reads), "call", "times", blocked, "source")
    for each in report.host_reads[:ROWS_SHOWN]:
        source = escape(_short(each.source, keep_end=True)) or "unknown"
        table.add_row(
            escape(_short(each.call)), read_times(each, report), format_ms(each.blocked_ms_per_step), source
        )
    return _and_more(table, len(report.host_reads))


def _transfers(title: str, kind: str, rows: list[TransferRow]) -> RenderableType:
    table = _table(
        escape(transfers_title(title, rows)),
        "op",
        kind,
        "times",
        "bytes",
        "GB/s",
        "exposed",
        "behind compute",
        "behind others",
        "tensor",
    )
    for each in rows[:ROWS_SHOWN]:
        table.add_row(
            escape(_short(each.name)),
            each.kind,
            str(each.occurrences),
            format_bytes(each.bytes) if each.bytes else "unknown",
            f"{each.gb_per_s:.1f}" if each.gb_per_s is not None else "unknown",
            "unknown" if each.seen_exposed_ms is None else format_ms(each.seen_exposed_ms),
            "unknown" if each.hidden_ms_per_step is None else format_ms(each.hidden_ms_per_step),
            "unknown" if each.waiting_ms_per_step is None else format_ms(each.waiting_ms_per_step),
            escape(_short(each.tensor)),
        )
    return _and_more(table, len(rows))


def _annotations(report: Report) -> RenderableType:
    known = any(each.host_ms_per_step is not None for each in report.annotations)
    title = f"Annotations, {per_step(report) if known else IN_ALL}"
    table = _table(title, "name", "kind", "times in all", "host", "device")
    for each in report.annotations[:ROWS_SHOWN]:
        host_ms, device_ms = annotation_ms(each)
        device = format_ms(device_ms) if device_ms is not None else "unknown"
        table.add_row(escape(_short(each.name)), each.kind, str(each.occurrences), format_ms(host_ms), device)
    return _and_more(table, len(report.annotations))


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    for position, column in enumerate(columns):
        right = column in _RIGHT
        table.add_column(
            column,
            justify="right" if right else "left",
            no_wrap=position == 0,
            style="" if position else "cyan",
        )
    return table


def _and_more(table: Table, count: int, left_out: int = 0) -> Table:
    if count > ROWS_SHOWN:
        table.caption = f"and {count - ROWS_SHOWN} more (--json has all)"
        if left_out:
            rest = f"{left_out} that take next to no time (--all-ops)"
            table.caption = f"and {count - ROWS_SHOWN} more (--json), and {rest}"
        table.caption_justify = "left"
    return table


def escape(text: str) -> str:
    """Text from a trace, made harmless: no markup, and no control character that a terminal would obey."""
    return escape_markup(printable(text))


def _short(text: str, *, keep_end: bool = False) -> str:
    if len(text) <= _NAME_CELLS:
        return text
    return "…" + text[1 - _NAME_CELLS :] if keep_end else text[: _NAME_CELLS - 1] + "…"
