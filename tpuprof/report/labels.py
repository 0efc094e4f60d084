"""What the Report's terms are called wherever people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuprof.own_events import WAITS_ALONE
from tpuprof.parts import word_of
from tpuprof.report.between import BETWEEN_STEPS, share_between, spent_outside
from tpuprof.report.user_frames import in_package, is_users_line
from tpuprof.units import counted, format_ms, format_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuprof.report.schema import CompileRow, Finding, HostReadRow, Report, Savings, TransferRow
    from tpuprof.report.sections import FallbackRow

# Rules about what the verdict names whose reasons are shown where none of them failed (rules).
RELATED_SHOWN = 3
# A graph cut that neither a sync nor a read of a value explains: torch_xla runs an op on the CPU, or a library reads.
OTHER_CUT = "other"
# Lines of one fault that are listed; more are counted (lines).
PLACES_SHOWN = 4
# How a verdict ends that names code of the host beside a device which is this machine's CPU.
MAY_BE_FASTER = "without that code the device may be faster"
# Why a rule passes whose fault is there, and whose fix would gain little.
HELD_UP_ELSEWHERE = "something else holds it up"
# Why it is unknown whether what a rule found costs time.
DEVICE_IS_BEHIND = (
    "the device runs fewer programs than the host hands over, so whether it waits for the host is unknown"
)
NEVER_RESTS = "the thread that hands programs to the device never rests: whether the device waits is unknown"
_SEEN_BUT_OPEN = (DEVICE_IS_BEHIND, NEVER_RESTS)
# Why tracing that leaves the device idle may cost nothing, where the runtime makes host and device take turns.
HIDES_BEHIND_DEVICE = (
    "the device needs longer than the host: without the runtime's waits, tracing hides behind it"
)
_PHASES = {
    "python_and_dispatch": "Python and dispatch",
    "ir_walk_and_hash": "walk over the graph and its hash",
    "scan_retrace": "scan",
    "autograd": "autograd (backward)",
    "sharding": "sharding",
}
_DIAGNOSES = {
    "ok": "keeps up",
    "no_prefetch": "no prefetch: training makes its own batches",
    "slow_workers": "worker processes make the batches, slower than training uses them",
    "restarted_workers": "worker processes make the batches, and new ones start in the captured steps",
    "slow_loader": "making a batch takes longer than training on it",
    "shallow_prefetch": "fast enough, but too few batches are made ahead",
    "unseen": "a thread makes batches ahead, whether fast enough is unknown",
}
_CACHE_STATES = {
    "off": "off: every start compiles again",
    "ok": "on, and used",
    "never_loads": "on and hit, but no program was loaded from it",
    "cold": "on, and filled for the first time by this run",
}
# What texts say of steps, and of a capture in which there is none.
_OF_STEPS = (
    (" of each step", " of the whole capture"),
    ("per step", "in the whole capture"),
    ("a step's time", "the time"),
    ("a step would take", "it would take"),
    (" in 1 step ", " in the capture "),
)
# How a price is known, by its method.
_METHODS = {
    "measured": "measured in this trace",
    "counterfactual": "simulated",
    "bound": "an upper bound",
}
STATUS_WORDS = {
    "failed": "to fix",
    "passed": "passed",
    "not_applicable": "not applicable",
    "unavailable": "could not be checked",
    "error": "the check itself failed",
}


def of_the_capture(text: str) -> str:
    """A text about steps, as it reads where no step was found: `12 ms per step` is `12 ms in the whole capture`."""
    for of_steps, of_capture in _OF_STEPS:
        text = text.replace(of_steps, of_capture)
    return text


def of_steps(text: str, report: Report) -> str:
    """A text about steps, in the words of a report that may have none."""
    return of_the_capture(text) if report.steps.whole_capture else text


def phase_title(phase: str) -> str:
    """What a phase of tracing is called."""
    return _PHASES.get(phase, phase.replace("_", " "))


def method_title(savings: Savings) -> str:
    """How a price is known."""
    if savings.method == "bound" and 0 < savings.low < savings.high:
        return "a lower and an upper bound"
    return _METHODS.get(savings.method, savings.method)


def diagnosis_title(diagnosis: str) -> str:
    """What an input pipeline's diagnosis says."""
    return _DIAGNOSES.get(diagnosis, diagnosis.replace("_", " "))


def cache_title(status: str) -> str:
    """What the persistent compilation cache did; empty where that is not known."""
    return _CACHE_STATES.get(status, "")


def shared_saving(finding: Finding) -> str:
    """Which findings save the same time, and what all of them save together; empty where none does."""
    names = finding.shares_saving_with
    if not names:
        return ""
    said = f"It shares this saving with {', '.join(names)}: do not add them up."
    if finding.saves_together_ms is None:
        return said
    all_of_them = "both" if len(names) == 1 else f"all {len(names) + 1}"
    return f"{said} Fixing {all_of_them} saves up to {format_ms(finding.saves_together_ms)} per step (simulated)."


def samples_per_second(report: Report) -> str:
    """`, 1,234 samples/s` to stand beside the step time; empty where the program does not state its batch."""
    found = report.throughput.samples_per_s
    return "" if found is None else f", {format_rate(found)} samples/s"


def format_rate(rate: float) -> str:
    """A rate with at least three figures, and no more where it has decimals."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def below_findings(report: Report) -> str:
    """What no failed finding is about: what lies between the steps, where that takes much of the time; else empty."""
    between = _between(report)
    if not between or any(
        each.status == "failed" and BETWEEN_STEPS in each.title for each in report.findings
    ):
        return ""
    return f"All of that is of the training steps. {between}"


def _between(report: Report) -> str:
    share = share_between(report)
    return (
        f"What lies between them takes {format_share(share)} of the time: see the verdict." if share else ""
    )


def _nothing_in_steps(report: Report) -> str:
    """The sentence of a run without a failed rule and without a named cause, by what the captured steps leave open."""
    between = _between(report)
    if between:
        return f"Nothing in the training steps: no rule failed. {between}"
    if spent_outside(report):
        return (
            "No rule failed in the captured steps. Steps outside of the capture took longer: see the warning."
        )
    if MAY_BE_FASTER in report.verdict.sentence:
        return "No rule failed. What may save time is code beside the device, with no known price: see the verdict."
    return "Nothing: no rule failed."


def nothing_failed(report: Report) -> str:
    """What to say where no rule failed; a cause that the verdict names is then one without a known fix.

    Empty where no rule has looked.
    """
    if not report.findings:
        return ""
    if all(each.status != "passed" for each in report.findings):
        return "Unknown: no rule could be checked."
    seen = [
        f"{each.title}, but {each.reason} ({each.rule})"
        for each in report.findings
        if each.reason in _SEEN_BUT_OPEN
    ]
    if seen:
        return ". ".join(["No fix is known to save time", *seen[:RELATED_SHOWN]]) + "."
    hides = [f"{each.title} ({each.rule})" for each in report.findings if each.reason == HIDES_BEHIND_DEVICE]
    if hides:
        return ". ".join(["No fix is sure to save time", *hides[:RELATED_SHOWN]]) + "."
    word = word_of(report.verdict.bound)
    if not word.category:
        return _nothing_in_steps(report)
    related = [each for each in report.findings if each.category == word.category and each.reason]
    order = {status: row for row, status in enumerate(("unavailable", "error", "passed"))}
    related = sorted((each for each in related if each.status in order), key=lambda each: order[each.status])
    said = [f"{each.reason[:1].upper()}{each.reason[1:]} ({each.rule})" for each in related[:RELATED_SHOWN]]
    return ". ".join(["No rule has a fix for what the verdict names", *said]) + "."


def reads_title(rows: list[HostReadRow]) -> str:
    """The heading of a table of host reads: calls that wait for the device, and read nothing, stand in it too."""
    waits = [each.call in WAITS_ALONE for each in rows]
    if not any(waits):
        return "Device-to-host reads"
    return "Waits for the device" if all(waits) else "Device-to-host reads, and waits for the device"


def read_times(row: HostReadRow, report: Report) -> str:
    """How often a line reads. JAX leaves no event for an array that NumPy takes, and samples see one at a time."""
    sampled = row.call == "__array__" and "jax" in str(report.environment.get("framework"))
    return f"{row.occurrences} or more" if sampled else str(row.occurrences)


def transfers_title(title: str, rows: list[TransferRow]) -> str:
    """The heading of a table of transfers: they are of one device, and of several hosts' it says whose."""
    return f"{title}, one device of {rows[0].host}" if rows and rows[0].host else title


def device_count(report: Report) -> str:
    """`4`, or `4 of 8` where the trace has devices without work."""
    count = int(report.environment.get("device_count") or 0)
    known = int(report.environment.get("devices_in_trace") or 0)
    return f"{count} of {known}" if known > count else str(count)


def host_count(report: Report) -> str:
    """`4 hosts`, `3 of 4 hosts` where one cannot be read, or `4 processes of 1 host`."""
    hosts = int(report.environment.get("host_count") or 1)
    found = hosts + len(report.environment.get("unread_hosts") or {})
    machines = int(report.environment.get("machine_count") or hosts)
    if machines < hosts == found:
        return f"{hosts} processes of {counted(machines, 'host')}"
    return f"{hosts} of {counted(found, 'host')}" if found > hosts else counted(hosts, "host")


def fallback_text(row: FallbackRow) -> str:
    """An op that falls back to the host, with its lines, inside a sentence."""
    if not row.source:
        return row.op
    places, inside = places_text(row.places), f"in {in_package(row.inside)}" if row.inside else ""
    if row.gradient:
        return f"{row.op} (the gradient of {', '.join(filter(None, (places, inside)))})"
    return f"{row.op} at {places}" + (f" ({inside})" if inside else "")


def places_text(places: Sequence[str]) -> str:
    """`a.py:7`, `a.py:7 and a.py:9`, or the first few and how many more there are."""
    shown, left = list(places[:PLACES_SHOWN]), len(places) - PLACES_SHOWN
    if left > 0:
        shown.append(counted(left, "more line"))
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def main_places(finding: Finding) -> list[str]:
    """The places (`file:line`) that a finding is at: of its first evidence in the program's own files, else in any.

    The op that takes most time may come from a line of a library, which nobody changes. Empty where none is known.
    """
    known = [each.places for each in finding.evidence if each.source]
    return next((each for each in known if is_users_line(each[0])), known[0] if known else [])


def longest_line(compiles: Sequence[CompileRow]) -> tuple[str, float]:
    """The line at which most of the time of some compiles went (empty where unknown), and its share of all."""
    took: dict[str, float] = {}
    for row in compiles:
        line = source_of(row.frames[0]) if row.frames else ""
        took[line] = took.get(line, 0.0) + row.duration_ms
    most = max(took, key=lambda line: took[line], default="")
    total = sum(took.values())
    return most, took[most] / total if total else 0.0


def source_of(frame: str) -> str:
    """`file:line` of a frame as `user_frames` writes it."""
    return frame.rpartition(" (")[2].rstrip(")")
