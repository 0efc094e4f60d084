"""What html and markdown say alike: headline, facts of the run, how it was measured, ranked findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpuprof.parts import DEVICE_PARTS, word_of
from tpuprof.render.finding_hosts import host_sentences  # noqa: F401  # for templates, which know this module alone
from tpuprof.render.savings import (
    saved_amount,
    tried,  # noqa: F401  # for templates, which know this module alone
)
from tpuprof.report.labels import (
    STATUS_WORDS,
    device_count,
    host_count,
    main_places,
    method_title,
    places_text,
    samples_per_second,
    shared_saving,
)
from tpuprof.report.step_times import step_times
from tpuprof.shown_text import printable
from tpuprof.units import MS_PER_S, NS_PER_MS, counted, format_bytes, format_ms, format_share

if TYPE_CHECKING:
    from tpuprof.report.schema import CompileRow, Evidence, Finding, Report

PREDICTED = "Predicted, not measured: device times are the compiler's estimate."
_FAILED = "failed"
_NO_TIME = "no step time at stake"
_OTHERS = ("passed", "not_applicable", "unavailable", "error")


@dataclass(frozen=True)
class Advice:
    """What to try first: the fix in one sentence, what it saves (empty where unknown), and why it is not the verdict's
    part, empty where it is. `source` is the file and line it is about, empty where the trace does not name one.
    """

    text: str
    savings: str
    why: str
    finding: Finding
    source: str


def headline(report: Report) -> str:
    """Steps and devices in one line."""
    steps = report.steps
    devices = f"{devices_seen(report)}, {host_count(report)}"
    if steps.median_ms is None or steps.p95_ms is None:
        return printable(f"{devices}; no steps: {steps.note}")
    times = f"{counted(steps.count, 'step')}, {step_times(report)}{samples_per_second(report)}"
    mfu = report.compute.mfu if report.compute is not None else None
    used = f"; MFU {format_share(mfu)}" if mfu is not None else ""
    return printable(f"{times}; {devices}{used}")


def devices_seen(report: Report, times: str = "×") -> str:
    """How many devices of which type the trace shows."""
    environment = report.environment
    if not (environment.get("device_count") or environment.get("devices_in_trace")):
        return "no device plane"
    return f"{device_count(report)} {times} {environment.get('device_type') or 'unknown device'}"


def sees_device(report: Report) -> bool:
    """Whether the trace shows what a device does: without, nothing is said of its idling."""
    return report.environment.get("device_type") is not None or any(
        each.share > 0 for name, each in report.breakdown.items() if name in DEVICE_PARTS
    )


def failed_findings(report: Report) -> list[Finding]:
    """Findings of faults, as the report ranks them: by what their fix would save."""
    return [each for each in report.findings if each.status == _FAILED]


def first_to_try(report: Report) -> Advice | None:
    """The first finding's fix, None where nothing failed.

    Findings rank by what their fix would save, the verdict names the largest part of the step: where the two differ,
    the advice says what fixing that part would save.
    """
    failed = failed_findings(report)
    if not failed:
        return None
    first = failed[0]
    fix = first.fix.text if first.fix and first.fix.text else first.title
    wanted = word_of(report.verdict.bound).category or first.category
    own = next((each for each in failed if each.category == wanted), None)
    why = "" if first.category == wanted else _why_not(first, own)
    source = places_text(main_places(first))
    saved = _NO_TIME if _takes_no_time(first) else saves(first)
    return Advice(fix.partition(". ")[0].removesuffix("."), saved, why, first, source)


def _why_not(first: Finding, own: Finding | None) -> str:
    """Why the first finding is not of what the verdict names, whose own first finding is `own`."""
    head = "The verdict names the largest part of the step; "
    if own is None:
        return head + "no rule found a fix for that part."
    if own.savings is None:
        return f"{head}what can be done about that part is not priced: {own.title}."
    less = first.savings is not None and own.savings.high <= first.savings.high
    word = "saves less" if less else "ranks behind"
    return f"{head}what can be done about that part {word}: {own.title} ({saves(own)})."


def saves(finding: Finding) -> str:
    """`saves 12 to 18 ms per step`, empty where it is not priced."""
    return f"saves {saved_amount(finding.savings)}" if finding.savings is not None else ""


def other_findings(report: Report) -> list[tuple[str, list[Finding]]]:
    """(what became of them, rules) of rules that found no fault, in a fixed order."""
    groups = []
    for status in _OTHERS:
        words = STATUS_WORDS[status]
        found = [each for each in report.findings if each.status == status]
        if found:
            groups.append((words, sorted(found, key=lambda each: each.rule)))
    return groups


def shares(finding: Finding) -> str:
    """Which other findings save the same time, empty where none does."""
    return shared_saving(finding)


def _takes_no_time(finding: Finding) -> bool:
    """Whether a finding is on something else than step time, as on memory."""
    return finding.savings is None and not finding.severity


def stake(finding: Finding) -> str:
    """The finding's share of step time: what a replay gains of it, or all that its cause takes where none was made."""
    saved = finding.savings
    if _takes_no_time(finding):
        return _NO_TIME
    if saved is None or saved.method != "counterfactual":
        return f"{format_share(finding.severity)} of step time at stake"
    if not saved.step_low_ms:
        return f"about {format_share(finding.severity)} of step time to gain"
    step = saved.high + saved.step_low_ms
    low, high = format_share(saved.low / step), format_share(saved.high / step)
    if not saved.low:
        return f"up to {high} of step time to gain"
    return f"{high if low == high else f'{low} to {high}'} of step time to gain"


def savings(finding: Finding) -> str:
    """What a fix would save, with how that is known; empty where it is not priced."""
    if finding.savings is None:
        return ""
    how = f"{method_title(finding.savings)}, {finding.confidence} confidence"
    note = f"; {finding.savings.note}" if finding.savings.note else ""
    return f"{saved_amount(finding.savings)} ({how}{note})"


def evidence_text(evidence: Evidence) -> str:
    """One piece of evidence in words, without its place."""
    if evidence.value is None:
        return evidence.text
    return f"{evidence.text}: {amount(evidence.value, evidence.unit)}"


def amount(value: float, unit: str) -> str:
    """A value with its unit, as people read it."""
    if unit.partition(" ")[0] == "ms":
        return f"{format_ms(value)}{unit[2:]}"
    if unit in ("bytes", "B"):
        return format_bytes(value)
    if unit in ("share", "ratio of step"):
        return format_share(value)
    shown = f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"
    return f"{shown} {unit}".strip()


def place(evidence: Evidence) -> str:
    """Where a piece of evidence is seen: source line, step, host, moment."""
    parts = []
    if evidence.source:
        parts.append(places_text(evidence.places))
    if evidence.step is not None:
        parts.append(f"step {evidence.step}")
    if evidence.host:
        parts.append(f"host {evidence.host}")
    if evidence.start_ns is not None:
        parts.append(f"at {format_ms(evidence.start_ns / NS_PER_MS)}")
    return ", ".join(parts)


def shown_compiles(report: Report) -> list[CompileRow]:
    """All compiles, those of captured steps first: a table shows some, and these are what findings are about."""
    return sorted(report.compiles, key=lambda row: row.step is None)


def compile_place(row: CompileRow) -> str:
    """`file:line` of a compile's cause, else its innermost user frame, empty where neither is known."""
    if row.cause.source_file:
        return places_text(row.cause.places)
    return row.frames[0] if row.frames else ""


def environment_facts(report: Report) -> list[tuple[str, str]]:
    """What maintainers ask for: versions, device, flags, variables, command line. (name, value) in order."""
    environment = report.environment
    run: dict[str, Any] = environment.get("run") or {}
    facts: list[tuple[str, Any]] = [("tpuprof", report.generator.get("version"))]
    versions = run.get("versions") or {
        name: environment.get(name) for name in ("torch", "torch_xla", "libtpu", "jax", "jaxlib")
    }
    facts += [(name, version) for name, version in versions.items() if name != "tpuprof"]
    facts += [("python", run.get("python")), ("platform", run.get("platform"))]
    facts += [("framework", environment.get("framework")), ("device type", environment.get("device_type"))]
    facts += [("devices", device_count(report)), ("hosts", environment.get("host_count"))]
    facts += [("hosts that cannot be read", ", ".join(environment.get("unread_hosts") or {}) or None)]
    facts += [("processes", run.get("process_count")), ("SPMD", spmd_text(run.get("spmd")))]
    facts += [("C++11 ABI", run.get("cxx11_abi"))]
    if run.get("features_loaded"):
        facts.append(("features loaded", ", ".join(map(str, run["features_loaded"]))))
    if run.get("command_line"):
        import shlex

        facts.append(("command line", shlex.join(map(str, run["command_line"]))))
    facts += sorted((run.get("environment") or {}).items())
    return [(printable(str(name)), printable(str(value))) for name, value in facts if value not in (None, "")]


def spmd_text(spmd: Any) -> str | None:
    """`on, mesh (4, 2) (data, fsdp)`, None where it is unknown."""
    if not isinstance(spmd, dict):
        return None
    mesh = spmd.get("mesh")
    state = "on" if spmd.get("on") else "off"
    return f"{state}, mesh {mesh.get('shape')} {mesh.get('axes')}" if isinstance(mesh, dict) else state


def measured_how(report: Report) -> list[tuple[str, str]]:
    """How the figures came about and how far to trust them. (what, how) in order."""
    steps = report.steps
    run: dict[str, Any] = report.environment.get("run") or {}
    capture: dict[str, Any] = run.get("capture") or {}
    facts = [("steps from", f"{steps.method} ({steps.confidence} confidence)")]
    if steps.note:
        facts.append(("note", steps.note))
    if capture:
        facts.append(
            (
                "capture",
                f"{capture.get('steps_captured')} steps after {capture.get('steps_before')} others, "
                f"by {capture.get('backend')}",
            )
        )
        spent = (capture.get("overhead_seconds") or {}).get("capturing")
        if isinstance(spent, int | float):
            facts.append(("tpuprof's own work while capturing", format_ms(spent * MS_PER_S)))
    elif not run:
        facts.append(("capture", "not by tpuprof: environment, telemetry and Python frames are unavailable"))
    sizes = report.source.get("sizes") or []
    files = report.source.get("files") or []
    facts += [("file", f"{path} ({format_bytes(size)})") for path, size in zip(files, sizes, strict=False)]
    return [(name, printable(value)) for name, value in facts]


# What the words of `redactions` mean, in their order.
LOOKED_FOR = (
    "secrets",
    "e-mail addresses",
    "buckets",
    "paths",
    "IP addresses",
    "hosts",
    "projects",
    "users",
)


def redaction_note(report: Report) -> str:
    """What was replaced, in one sentence."""
    if report.redactions is None:
        return "Nothing was redacted."
    kinds = ", ".join(f"{kind} {count}×" for kind, count in report.redactions.items()) or "none of them"
    return (
        f"Redacted: looked for {', '.join(LOOKED_FOR[:-1])} and {LOOKED_FOR[-1]}; replaced by pseudonyms: {kinds}. "
        "A private name without a form that gives it away stays."
    )
