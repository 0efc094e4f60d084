"""A Report as Markdown for a GitHub issue: renders well there and stays below GitHub's limit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tpuprof.parts import meaning_of
from tpuprof.render import content
from tpuprof.render.facts import fact_lines
from tpuprof.render.finding_hosts import host_sentences
from tpuprof.render.op_time import largest_first, op_ms, ops_ms, over
from tpuprof.render.savings import tried
from tpuprof.render.triage import measurements
from tpuprof.report.labels import (
    below_findings,
    nothing_failed,
    of_steps,
    read_times,
    reads_title,
    transfers_title,
)
from tpuprof.report.op_hosts import has_several_hosts, hosts_of
from tpuprof.shown_text import printable, printable_lines
from tpuprof.units import NS_PER_MS, format_bytes, format_ms, format_share

if TYPE_CHECKING:
    from tpuprof.report.schema import Finding, Report, TransferRow

# The longest body GitHub takes for an issue or a comment (characters):
# its API answers "body is too long (maximum is 65536 characters)".
GITHUB_LIMIT = 65_536
# Rows of each table, tried in turn until the text fits (rows).
_ROWS = (20, 10, 5, 2, 1)
# Characters of a name or a sentence shown, by rows: short tables take short names (characters).
_NAME_LENGTHS = {20: 160, 10: 120, 5: 80, 2: 60, 1: 40}
_TICKS = re.compile(r"`+")
# What would be markup, a formula or HTML outside a code span, and at the start of a line a list or a heading.
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~$&])|^(?=[-+#=])|^(\d+)(?=[.)](?:\s|$))")
# GitHub links mentions, issues and addresses after it has dealt with backslashes, so those do not stop it; a
# zero-width space does.
_LINKED = re.compile(r"(@(?=\w)|#(?=\d)|GH-(?=\d)|:(?=//)|www(?=\.))")
_ZERO_WIDTH_SPACE = "\u200b"


def render_markdown(report: Report) -> str:
    """The report in GitHub's Markdown, below 65,536 characters: long tables lose rows, and say so."""
    for rows in _ROWS:
        text = _render(report, rows)
        if len(text) < GITHUB_LIMIT:
            return text
    notice = "\n\n*Cut here: GitHub takes no more. The JSON has all.*\n"
    return _without_open_blocks(text[: GITHUB_LIMIT - len(notice) - 64]) + notice


def plain(text: object, limit: int = 300) -> str:
    """A text from the trace as Markdown that says just that: no markup, mention, link or HTML."""
    shown = _LINKED.sub(rf"\1{_ZERO_WIDTH_SPACE}", _short(printable(str(text)).strip(), limit))
    return _SPECIAL.sub(
        lambda match: f"{match.group(2)}\\" if match.group(2) else f"\\{match.group(1) or ''}", shown
    )


def prose(text: str, limit: int = 600) -> str:
    """A text of a rule: what stands in backticks is code, and all else says just what it says."""
    shown = _short(printable(text), limit)
    if "``" in shown:
        return plain(shown, limit)
    pieces = shown.split("`")
    if len(pieces) % 2 == 0:
        # The last tick has no other one.
        pieces[-2:] = ["`".join(pieces[-2:])]
    return "".join(
        code(piece) if row % 2 else plain(piece, limit).join(_blanks(piece))
        for row, piece in enumerate(pieces)
    )


def _blanks(words: str) -> tuple[str, str]:
    """The blanks that stand around these words."""
    inner = words.strip()
    before, _, after = words.partition(inner) if inner else (words, "", "")
    return before, after


def code(text: object, limit: int = 160) -> str:
    """A name from the trace as a code span that may stand in a table; `@` and `#` do nothing in it."""
    shown = _short(printable(str(text)), limit).replace("\r", " ").replace("\n", " ")
    if not shown.strip():
        return ""
    # A pipe would end the cell even inside a code span, unless a backslash stands before it.
    shown = shown.replace("|", "\\|")
    fence = "`" * (max((len(each) for each in _TICKS.findall(shown)), default=0) + 1)
    pad = " " if shown[0] in "` " or shown[-1] in "` \\" else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; a column whose name ends in `:` is right-aligned. Cells must be escaped already."""
    names = list(columns)
    lines = [f"| {' | '.join(name.rstrip(':') for name in names)} |"]
    lines.append("|" + "|".join("--:" if name.endswith(":") else "---" for name in names) + "|")
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def fenced(text: str, language: str = "") -> str:
    """A block of code whose fence no line of it can close."""
    fence = "`" * max(3, max((len(each) for each in _TICKS.findall(text)), default=0) + 1)
    return f"{fence}{language}\n{text.strip(chr(10))}\n{fence}"


def _render(report: Report, rows: int) -> str:
    limit = _NAME_LENGTHS[rows]
    parts = [f"### tpuprof: {plain(report.verdict.sentence, 600)}"]
    if report.predicted:
        parts.append(f"> **{content.PREDICTED}**")
    parts.append(plain(content.headline(report)))
    parts += _breakdown(report, limit)
    parts += _why(report, limit)
    parts += _findings(report, rows, limit)
    parts += _measure_next(report, rows, limit)
    parts += _span_notes(report, rows, limit)
    parts += _compiles(report, rows, limit)
    parts += _ops(report, rows, limit)
    parts += _reads(report, rows, limit)
    parts += _fallbacks(report, rows, limit)
    parts += _transfers("Host offload", report.offload, rows, limit)
    parts += _transfers("Collectives", report.collectives, rows, limit)
    parts += _memory(report)
    parts += _environment(report, rows, limit)
    parts += _measured(report, rows, limit)
    return "\n\n".join(parts) + "\n"


def _breakdown(report: Report, limit: int) -> list[str]:
    ranked = sorted(report.breakdown.items(), key=lambda item: -item[1].share)
    sees_device = content.sees_device(report)
    rows = [
        (
            code(name, limit),
            format_share(part.share),
            format_ms(part.ms_per_step),
            meaning_of(name, sees_device=sees_device),
        )
        for name, part in ranked
        if part.share > 0
    ]
    if not rows:
        return []
    columns = ("part", "share:", of_steps("per step:", report), "what it is")
    return [of_steps("#### Where a step's time goes", report), table(columns, rows)]


def _why(report: Report, limit: int) -> list[str]:
    rows = [(subject, plain(line, 4 * limit)) for subject, line in fact_lines(report)]
    return ["#### Why", table(("", ""), rows)] if rows else []


def _findings(report: Report, rows: int, limit: int) -> list[str]:
    if not report.findings:
        return []
    failed = content.failed_findings(report)
    parts = ["#### Findings" if failed else f"#### Findings\n\n{plain(nothing_failed(report), 8 * limit)}"]
    for finding in failed[: max(rows, 3)]:
        parts += _finding(finding, rows, limit)
    if len(failed) > max(rows, 3):
        parts.append(f"and {len(failed) - max(rows, 3)} more findings")
    if failed and (note := below_findings(report)):
        parts.append(note)
    others = [f"{len(found)} {words}" for words, found in content.other_findings(report)]
    if others:
        parts.append(f"Other rules: {', '.join(others)}.")
    return parts


def _finding(finding: Finding, rows: int, limit: int) -> list[str]:
    facts = [code(finding.rule), content.stake(finding)]
    if content.savings(finding):
        facts.append(f"a fix saves {plain(content.savings(finding))}")
        if finding.shares_saving_with:
            facts.append(f"shares this saving with {plain(', '.join(finding.shares_saving_with))}")
        if finding.saves_together_ms is not None:
            facts.append(
                f"together they save up to {format_ms(finding.saves_together_ms)} per step, simulated"
            )
    elif finding.reason:
        facts.append(f"not priced: {plain(finding.reason, limit)}")
    parts = [f"**{plain(finding.title)}** ({', '.join(facts)})", prose(finding.why)]
    parts += [plain(each, 600) for each in host_sentences(finding)]
    evidence = []
    for each in finding.evidence[:rows]:
        where = code(content.place(each), limit)
        evidence.append(f"- {plain(content.evidence_text(each), limit)} {where}".rstrip())
    if len(finding.evidence) > rows:
        evidence.append(f"- and {len(finding.evidence) - rows} more")
    if evidence:
        parts.append("\n".join(evidence))
    parts += [f"*Tried:* {plain(each, 600)}" for each in tried(finding)]
    if finding.fix:
        parts.append(f"*Fix:* {prose(finding.fix.text)}")
        change = "\n".join(
            [f"- {line}" for line in finding.fix.before.splitlines()]
            + [f"+ {line}" for line in finding.fix.after.splitlines()]
        )
        if change:
            parts.append(fenced(printable_lines(change[:2000]), "diff"))
    return parts


def _measure_next(report: Report, rows: int, limit: int) -> list[str]:
    found = [each for each in measurements(report) if each.command]
    if not found:
        return []
    lines = [
        f"- {code(each.command, 4 * limit)} decides {plain(f'{each.decides_text}. {each.advice}', 4 * limit)}"
        for each in found[:rows]
    ]
    return ["#### Measure next", "\n".join(lines), *_more(len(found), rows)]


def _span_notes(report: Report, rows: int, limit: int) -> list[str]:
    """What people noted on spans of the timeline."""
    if not report.span_notes:
        return []
    cells = [
        (
            plain(each.text, 4 * limit),
            code(each.name, limit),
            format_ms(each.start_ns / NS_PER_MS),
            format_ms(each.duration_ns / NS_PER_MS),
        )
        for each in report.span_notes[:rows]
    ]
    found = table(("note", "on", "at:", "for:"), cells)
    return [f"#### Notes ({len(report.span_notes)})", found, *_more(len(report.span_notes), rows)]


def _compiles(report: Report, rows: int, limit: int) -> list[str]:
    if not report.compiles:
        return []
    cells = [
        (
            "outside" if row.step is None else str(row.step),
            format_ms(row.duration_ms),
            code(row.graph_hash or "unknown", limit),
            plain(f"{row.cause.kind}: {row.cause.detail}", limit),
            code(content.compile_place(row) or "unknown", limit),
        )
        for row in content.shown_compiles(report)[:rows]
    ]
    return [
        f"#### Compiles ({len(report.compiles)})",
        table(("step:", "duration:", "graph hash", "cause", "where"), cells),
        *_more(len(report.compiles), rows),
    ]


def _ops(report: Report, rows: int, limit: int) -> list[str]:
    if not report.ops:
        return []
    total = ops_ms(report)
    hosts = ("hosts",) if has_several_hosts(report) else ()
    cells = [
        (
            code(op.name, limit),
            *(code(hosts_of(op, report), limit) for _ in hosts),
            format_ms(op_ms(op)),
            format_share(op_ms(op) / total),
            str(op.occurrences),
            code(op.annotation, limit),
            code(op.source, limit),
        )
        for op in largest_first(report, rows)
    ]
    heading = f"#### Ops by device self time, {over(report)}"
    columns = ("op", *hosts, "self:", "share:", "times in all:", "annotation", "source")
    return [heading, table(columns, cells), *_more(len(report.ops), rows, report.ops_left_out.ops)]


def _reads(report: Report, rows: int, limit: int) -> list[str]:
    if not report.host_reads:
        return []
    cells = [
        (
            code(row.call, limit),
            read_times(row, report),
            format_ms(row.blocked_ms_per_step),
            code(row.source or "unknown", limit),
        )
        for row in report.host_reads[:rows]
    ]
    columns = ("call", "times:", of_steps("blocked per step:", report), "source")
    return [
        f"#### {reads_title(report.host_reads)}",
        table(columns, cells),
        *_more(len(report.host_reads), rows),
    ]


def _fallbacks(report: Report, rows: int, limit: int) -> list[str]:
    if not report.fallbacks:
        return []
    cells = [
        (
            code(row.op, limit),
            "unknown" if row.per_step is None else f"{row.per_step:.3g}",
            ", ".join(code(each, limit) for each in row.places or ["unknown"]),
        )
        for row in report.fallbacks[:rows]
    ]
    heading = "#### Ops that fall back to the CPU"
    columns = ("op", of_steps("per step:", report), "source")
    return [heading, table(columns, cells), *_more(len(report.fallbacks), rows)]


def _transfers(title: str, found: list[TransferRow], rows: int, limit: int) -> list[str]:
    if not found:
        return []
    cells = [
        (
            code(row.name, limit),
            plain(row.kind),
            format_bytes(row.bytes) if row.bytes else "unknown",
            "unknown" if row.gb_per_s is None else f"{row.gb_per_s:.1f}",
            "unknown" if row.seen_exposed_ms is None else format_ms(row.seen_exposed_ms),
            "unknown" if row.hidden_ms_per_step is None else format_ms(row.hidden_ms_per_step),
            "unknown" if row.waiting_ms_per_step is None else format_ms(row.waiting_ms_per_step),
        )
        for row in found[:rows]
    ]
    columns = (
        "op",
        "kind",
        "bytes:",
        "GB/s:",
        "exposed per step:",
        "behind compute:",
        "behind other transfers:",
    )
    heading = plain(transfers_title(title, found))
    return [f"#### {heading}", table(columns, cells), *_more(len(found), rows)]


def _memory(report: Report) -> list[str]:
    memory = report.memory
    if memory.peak_bytes is None:
        return []
    capacity = format_bytes(memory.capacity_bytes) if memory.capacity_bytes else "an unknown amount"
    return [
        f"HBM at the peak: {format_bytes(memory.peak_bytes)} of {capacity} on one device ({plain(memory.method)})."
    ]


def _environment(report: Report, rows: int, limit: int) -> list[str]:
    facts = [
        (plain(name, limit), code(value, 8 * limit)) for name, value in content.environment_facts(report)
    ]
    shown = facts if rows >= 5 else facts[:30]
    return ["<details><summary>Environment</summary>", table(("", ""), shown), "</details>"]


def _measured(report: Report, rows: int, limit: int) -> list[str]:
    facts = [(plain(name), code(value, 4 * limit)) for name, value in content.measured_how(report)]
    parts = ["<details><summary>How it was measured</summary>", table(("", ""), facts[: max(rows, 8)])]
    warnings = [f"- {plain(warning, 4 * limit)}" for warning in report.warnings[:rows]]
    if len(report.warnings) > rows:
        warnings.append(f"- and {len(report.warnings) - rows} more")
    if warnings:
        parts += ["Missing or doubtful:", "\n".join(warnings)]
    parts += ["</details>", plain(content.redaction_note(report))]
    return parts


def _more(count: int, rows: int, left_out: int = 0) -> list[str]:
    """What the table of `count` rows does not show, and those that not even the JSON has."""
    rest = f"{left_out} that take next to no time (`--all-ops` lists them)" if left_out else ""
    if count <= rows:
        return [f"and {rest}"] if rest else []
    return [
        f"and {count - rows} more (the JSON has them), and {rest}"
        if rest
        else f"and {count - rows} more (the JSON has all)"
    ]


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _without_open_blocks(text: str) -> str:
    """Cut text without its last, maybe unfinished paragraph, and with folded sections closed."""
    kept = text.rpartition("\n\n")[0]
    return kept + "\n\n</details>" * (kept.count("<details>") - kept.count("</details>"))
