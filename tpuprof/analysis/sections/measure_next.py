"""What this run cannot tell, and the command that would: one table from reasons to commands.

Reasons are those that rules, signals and sections give where something is unavailable. A reason that no row knows is
listed without a command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from tpuprof.analysis.sections.next_values import capture_of, values_of
from tpuprof.model.compile.recurrence import Returns
from tpuprof.model.host.vocabulary import PYTORCH, TORCH_XLA
from tpuprof.model.run_facts import was_sampled
from tpuprof.model.step_times import Bound, StepTimes
from tpuprof.records import record
from tpuprof.report.between import changed_after, spent_outside
from tpuprof.report.labels import DEVICE_IS_BEHIND
from tpuprof.report.schema import Finding, Report
from tpuprof.report.triage import VERDICT, NextMeasurement
from tpuprof.rules.runner import REPLAY_DISAGREES
from tpuprof.rules.shared.compiles_afterwards import UNSEEN_CAUSE
from tpuprof.run_folder import MANY_STEPS, RUN_INFO

# Steps that answer what too few could not (steps): twice the default.
MORE_STEPS = 16
_CAPTURE = "{variables}tpuprof capture{into}{warmup} -- {program}"
_MORE = f"{{variables}}tpuprof capture{{into}}{{warmup}} --steps {MORE_STEPS} -- {{program}}"
_MANY = f"{{variables}}tpuprof capture{{into}}{{warmup}} --steps {MANY_STEPS} -- {{program}}"
_HOLDING = "{{variables}}tpuprof capture{{into}}{{warmup}} --steps {steps} -- {{program}}"
_LATER = "{{variables}}tpuprof capture{{into}} --warmup {steps} -- {{program}}"
_LINES = "{variables}tpuprof capture{into}{warmup} --source-lines -- {program}"
_PREFLIGHT = "tpuprof preflight {script} --tpu {slice}{arguments}"
_HOSTS = "tpuprof capture -o RUN --addr HOST1:PORT,HOST2:PORT"
_PROVE = "{variables}tpuprof prove {rule} --before {before} --after COMMAND_WITH_THE_FIX{out}"
_PROVE_READS = _PROVE.replace("{rule}", "device-to-host-sync")
NOTHING_ON_A_GPU = "Nothing decides this on a GPU."
# What is said where the captured steps are the first ones of training.
LATER_STEPS = "The later capture has steps after the last one that compiled."
# Share of a step that compiles take from which other causes are a small share whatever they take of the rest (share): a
# tenth of a step, from which rules fail, is then a fifth of the rest or more. A judgement.
COMPILES_HIDE_FROM = 0.5
OTHER_CAUSES = "other causes"
# What is said of PyTorch on GPUs, which tpuprof reads and does not capture.
NOT_CAPTURED = "Nothing decides this: tpuprof reads traces of PyTorch on GPUs, and does not capture them."
# What makes `--steps` count where no step was seen while recording.
BY_THE_CLOCK = (
    "Mark steps with `with tpuprof.step(i):` first: this program marks none, so it was recorded by the clock, which "
    "`--steps` does not change."
)
_BY_TORCH_STEPS = (
    "Give `torch.profiler.profile` a schedule, and call `prof.step()` at the end of each training step."
)
_BY_TORCH_MORE = f"Record more steps: `torch.profiler.schedule(wait=1, warmup=1, active={MORE_STEPS})`."
_BY_TORCH_NAMES = (
    'Put `with torch.profiler.record_function("name"):` around what the loop does between steps.'
)


@record(frozen=True)
class Remedy:
    """What to do about a reason that has one of these `words` in it.

    `of_tpu`: only a TPU, or its compiler, decides it. `by_torch` is what to do where PyTorch's own profiler captures.
    What several remedies of one command advise is joined, so each sentence of `advice` names its subject.
    """

    words: tuple[str, ...]
    command: str
    advice: str
    of_tpu: bool = False
    by_torch: str = NOT_CAPTURED


# What many reasons need; a remedy that needs more begins with it, and reports join the two.
_ON_A_TPU = "Run the capture on the machine that holds the TPU."
_SAMPLES = ("samples of the training thread", "neither events nor samples")
# For a capture that has samples, or meant to.
MORE_SAMPLES = Remedy(_SAMPLES, _MANY, "The longer capture samples more steps.")

# The first that fits counts.
REMEDIES: tuple[Remedy, ...] = (
    Remedy(("knows TPUs only",), "", NOTHING_ON_A_GPU),
    Remedy(
        ("no training thread with known events", "host events and fewer than two steps"),
        _CAPTURE,
        "The capture records the host's events.",
    ),
    Remedy(
        ("mark them with tpuprof.step", "the trace has no steps"),
        _CAPTURE,
        "Mark steps with `with tpuprof.step(i):` first.",
        by_torch=_BY_TORCH_STEPS,
    ),
    Remedy(
        ("did not end while the profiler was on",),
        _CAPTURE,
        "Mark steps with `with tpuprof.step(i):` first: whole steps are then recorded, however long they take.",
        by_torch=_BY_TORCH_MORE,
    ),
    Remedy(("did not look for debugging tools",), _CAPTURE, "The capture looks for debugging tools."),
    Remedy(
        ("did not look for gradients",), _CAPTURE, "The capture looks for gradients that no optimizer uses."
    ),
    Remedy(
        ("let go of its parameters",),
        "",
        "Train for more steps: the recording then ends before the program does.",
    ),
    Remedy(
        ("no optimizer of torch.optim stepped",),
        "",
        "Nothing decides this: the parameters of other optimizers are not known.",
    ),
    Remedy(
        ("set to zero", "to zero in each step"),
        "",
        "Look at the line that sets these gradients to zero: if it alone uses them, they are not needed.",
    ),
    Remedy(
        ("no device activity", "no device ops"),
        _CAPTURE,
        _ON_A_TPU,
    ),
    Remedy(
        _SAMPLES,
        _CAPTURE,
        "The capture samples the training thread's stack, which tells tracing from other Python.",
    ),
    Remedy(
        (
            "telemetry: the capture ended",
            "one step tells nothing",
            "captured steps have events",
            "known only roughly",
            "the sampler looked once",
        ),
        _MORE,
        "The longer capture has more steps.",
        by_torch=_BY_TORCH_MORE,
    ),
    Remedy(
        (
            "telemetry",
            "torch_xla's counters",
            "no run folder by tpuprof",
            "not how often per step",
            "no run.json",
            "waited for a CPU",
        ),
        _CAPTURE,
        "The capture keeps the program's counters and the run's settings beside the profile.",
    ),
    Remedy(
        ("run.json does not say",),
        _CAPTURE,
        "This version of tpuprof keeps the run's settings beside the profile.",
    ),
    Remedy(
        (
            "runtime's allocator",
            "inputs a program donates",
            "batches a program computes",
            "embeds no HLO program",
        ),
        _CAPTURE,
        f"{_ON_A_TPU} Its trace has the allocator's events and the programs.",
        of_tpu=True,
    ),
    Remedy(
        (
            "peak memory is not known",
            "memory size is not known",
            "live in host memory",
            "no FLOPs",
            "peak FLOP/s",
            "bytes of ops",
            "copies of tensors on the host",
        ),
        _PREFLIGHT,
        "Preflight compiles the program for a TPU, without one, and says what the program takes there.",
        of_tpu=True,
    ),
    Remedy(
        (
            "HBM bandwidth",
            "which chip",
            "HLO line",
            "layout with tiles",
            "Async XLA Ops",
            "timed inside a step",
            "in no program",
            "time for lookups",
            "time for sorts",
            "what its fusions do",
        ),
        _CAPTURE,
        f"{_ON_A_TPU} Leave out `--no-hlo-debug`.",
        of_tpu=True,
    ),
    Remedy((DEVICE_IS_BEHIND,), _MANY, "A longer capture shows the device catch up, or fall behind."),
    Remedy(
        ("clocks", "no step in common"), _HOSTS, "Capture all hosts at the same moment, into one run folder."
    ),
    Remedy(
        (REPLAY_DISAGREES,),
        _PROVE,
        "`tpuprof prove` runs the program before and after the fix in turn and compares the times.",
    ),
)


def remedy_of(reason: str) -> Remedy | None:
    """The first remedy whose words are in the reason, None where the table does not know it."""
    return next((each for each in REMEDIES if any(words in reason for words in each.words)), None)


def measure_next(
    report: Report, bound: Bound, load: StepTimes, quiet: int | None = None, held_by: int = 0
) -> list[NextMeasurement]:
    """What could not be decided, what the verdict rests on first, then by how many rules it decides.

    `quiet` is how many steps it takes until none compiles any more, None where that is unknown. `held_by` is how many
    steps hold one of the long ones that come after the capture, 0 where there are none.
    """
    values = values_of(report)
    found: dict[tuple[str, str, str], list[str]] = {}
    first = bound.word == "compile" and _are_the_first(report)
    start = quiet if first or changed_after(report) else None
    for reason, decides, remedy in (
        *_of_the_verdict(report, bound, load),
        *_of_long_steps(held_by, report.steps.count),
        *_of_figures(report),
        *_of_findings(report),
    ):
        works = _that_works(remedy, report) if remedy is not None else None
        if works is not None:
            works = _later(works, start) if start is not None else _more_than_that(works, report)
        command = works.command.format(**values, rule=decides[0]) if works is not None else ""
        advice = works.advice if works is not None else ""
        names = found.setdefault((reason, command, advice), [])
        names += [each for each in decides if each not in names]
    rows = [NextMeasurement(*key, names) for key, names in found.items()]
    return sorted(rows, key=lambda row: (VERDICT not in row.decides, not row.command, -len(row.decides)))


def _that_works(remedy: Remedy, report: Report) -> Remedy:
    """The remedy where it works for the run's framework and device, else what can be done there."""
    if remedy.of_tpu and str(report.environment.get("device_type") or "").startswith("GPU"):
        return Remedy(remedy.words, "", NOTHING_ON_A_GPU)
    if remedy.words == _SAMPLES and was_sampled(report.environment.get("run")):
        return MORE_SAMPLES
    if remedy.command and report.environment.get("framework") == PYTORCH:
        return Remedy(remedy.words, "", remedy.by_torch)
    if remedy.command in (_MORE, _MANY) and _by_the_clock(report):
        return Remedy(remedy.words, remedy.command, BY_THE_CLOCK)
    return remedy


def _more_than_that(remedy: Remedy, report: Report) -> Remedy:
    """The remedy with twice the steps of a run that asked for as many already."""
    wanted = capture_of(report).get("steps_wanted")
    for command, steps in ((_MORE, MORE_STEPS), (_MANY, MANY_STEPS)):
        if remedy.command == command and isinstance(wanted, int) and wanted >= steps:
            return replace(remedy, command=command.replace(f"--steps {steps}", f"--steps {2 * wanted}"))
    return remedy


def _are_the_first(report: Report) -> bool:
    """Whether the captured steps are those in which training starts: they compile, and later ones do not."""
    history = report.compile_history
    return history.returns == Returns.NEVER.value and bool(history.steps_after)


def _later(remedy: Remedy, quiet: int) -> Remedy:
    """The remedy where the captured steps are the first ones: more of them would be no others."""
    if remedy.command == _CAPTURE:
        return replace(remedy, command=_LATER.format(steps=quiet))
    if remedy.command in (_MORE, _MANY):
        return replace(remedy, command=_LATER.format(steps=quiet), advice=LATER_STEPS)
    return remedy


def _by_the_clock(report: Report) -> bool:
    """Whether no step was seen while recording: run.json then says no number of steps."""
    capture = capture_of(report)
    return "steps_wanted" in capture and capture["steps_wanted"] is None


_Unknown = tuple[str, list[str], Remedy | None]


def _of_the_verdict(report: Report, bound: Bound, load: StepTimes) -> Iterator[_Unknown]:
    decides = [VERDICT]
    if bound.waits:
        reason = "Whether steps take as long without the reads of values is unknown."
        advice = "`tpuprof prove` compares steps with and without the reads."
        yield reason, decides, Remedy((), _PROVE_READS, advice)
    if load.wall and not load.seen and report.environment.get("device_type") is None:
        reason = "The trace has no device plane, so whether the device works while the host does is unknown."
        yield reason, decides, remedy_of("no device activity")
    elif bound.word == "undecided":
        reason, remedy = _of_undecided(bound, load)
        yield reason, decides, remedy
    elif bound.word == "unknown" and not bound.name and load.seen and load.wall:
        advice = 'Put `with tpuprof.annotate("name"):` around what the loop does between steps first.'
        yield (
            "Why the device idles is unknown: no event that tpuprof knows says what the host does meanwhile.",
            decides,
            Remedy((), _CAPTURE, advice, by_torch=_BY_TORCH_NAMES),
        )
    if report.steps.confidence == "low" and report.steps.per_step:
        advice = "Mark steps with `with tpuprof.step(i):` first."
        remedy = Remedy((), _CAPTURE, advice, by_torch=_BY_TORCH_STEPS)
        yield f"Where steps begin is uncertain: {report.steps.note}.", decides, remedy
    if spent_outside(report):
        reason = "What steps spend outside of the capture is unknown."
        yield reason, decides, Remedy((), _MANY, "The longer capture has more steps.")
    if bound.word == "compile" and _are_the_first(report):
        yield "The captured steps are the first ones of training.", decides, Remedy((), _MANY, LATER_STEPS)
    if bound.word == "compile" and report.compile_history.returns == Returns.UNKNOWN.value:
        yield (
            "It is unknown whether compiles come again.",
            decides,
            Remedy((), _MANY, "The longer capture has more steps."),
        )
    elif bound.word == "compile" and bound.share >= COMPILES_HIDE_FROM and not _are_the_first(report):
        reason = "Compiles take most of the captured steps: what takes much of the rest may be in no finding."
        yield reason, [OTHER_CAUSES], Remedy((), _CAPTURE, "Cure the compiles, and capture again.")


def _of_long_steps(held_by: int, captured: int) -> Iterator[_Unknown]:
    if held_by:
        reason = "What long steps outside of the capture spend is known from looks at the host alone."
        advice = "The longer capture holds one of them."
        if held_by <= captured:
            # As many steps held none, so they come more seldom than their number says.
            held_by, advice = 2 * captured, "The longer capture may hold one of them."
        yield reason, [VERDICT], Remedy((), _HOLDING.format(steps=held_by), advice)


def _of_undecided(bound: Bound, load: StepTimes) -> tuple[str, Remedy | None]:
    if load.behind is not None:
        return _sentence(DEVICE_IS_BEHIND), remedy_of(DEVICE_IS_BEHIND)
    if bound.turns:
        reason = (
            "Host and device take turns and need about as long: which one holds the step back is undecided."
        )
        return reason, Remedy((), _MANY, "Run the capture on a machine that does nothing else.")
    if bound.is_either:
        reason = "The device, or the thread that hands programs to it, is behind the host: which of them is unknown."
        return reason, remedy_of("no device activity")
    reason = "Nothing in the trace distinguishes tracing from other Python."
    return reason, remedy_of("neither events nor samples")


def _of_figures(report: Report) -> Iterator[_Unknown]:
    compute = report.compute
    if compute is not None and compute.mfu is None and compute.mfu_note:
        reason = compute.mfu_note.removeprefix("unavailable: ")
        yield _sentence(reason), ["MFU"], remedy_of(reason)
    without = {row.program for row in report.compiles if row.program}
    unplaced = without and any(op.program in without and not op.source for op in report.ops)
    # Programs of JAX have source lines anyway, and those of TorchTPU have them in a log.
    if unplaced and report.environment.get("framework") == TORCH_XLA and not _has_lines(report):
        reason = "Ops of graphs that were compiled in captured steps have no source line."
        yield reason, ["source lines"], Remedy((), _LINES, "Source lines slow the tracing of those graphs.")


def _has_lines(report: Report) -> bool:
    """Whether the capture collected source lines: ops that have none then, as copies of the compiler's, have none."""
    return True in (capture_of(report).get("source_lines"), capture_of(report).get("ir_debug_by_user"))


def _of_findings(report: Report) -> Iterator[_Unknown]:
    for each in report.findings:
        if each.status == "unavailable" or _disagrees(each):
            yield _sentence(each.reason), [each.rule], remedy_of(each.reason)
        elif each.status == "failed" and each.reason.endswith(UNSEEN_CAUSE):
            reason = f"{each.title}. What changed is unknown: the captured steps hold no such compile."
            warmup = report.compile_history.warmup_to_compiles
            more = Remedy((), _MANY, "The longer capture has more steps.")
            later = Remedy((), _LATER.format(steps=warmup), "The later capture has the steps that compile.")
            yield reason, [each.rule], more if warmup is None else later


def _disagrees(finding: Finding) -> bool:
    return finding.status == "failed" and finding.reason == REPLAY_DISAGREES


def _sentence(text: str) -> str:
    """A reason as a sentence. What it advises behind a semicolon is left out: the command says it."""
    head = re.split(r"; (?:capture|mark) |: capture more ", text.strip())[0]
    first = head[:1] if head.startswith(RUN_INFO.name) else head[:1].upper()
    return f"{first}{head[1:].rstrip('.')}."
