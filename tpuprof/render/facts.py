"""The Report's sections that say why, one line each, for people at a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tpuprof.parts import HOST_PREFIX, Replay, part_of, title_of
from tpuprof.render.pod_facts import line_facts, pod_lines
from tpuprof.report.host_lines import LINE_FROM_SAMPLES, PYTHON, Where, at_line, calls_programs, lines_told
from tpuprof.report.labels import OTHER_CUT, cache_title, diagnosis_title, of_steps, phase_title, places_text
from tpuprof.report.schema import LoopRow, Report
from tpuprof.report.sections import ChipWaitRow, HostStackRow, InputRow, OutlierRow, SliceMessageRow
from tpuprof.report.step_times import runs_ahead
from tpuprof.report.user_frames import in_package
from tpuprof.units import MS_PER_S, counted, format_bytes, format_ms, format_share

# Entries of each kind that a line names; the JSON has all.
SHOWN = 3
# Share of the step from which a line of the host's other work is named: below it, a sample or two say so. A judgement.
LINE_FROM_STEP_SHARE = 0.01
# Share of a step from which the host's own work is why it is long, and not a wait for the device. A judgement.
_OWN_FROM_SHARE = 0.5
# Of code that gives the device no work, at a line that calls programs as well: `train_step(...)` is both.
BESIDE_CALLS = "Python at a line that also calls programs"
# Compiling before the captured steps from which it is shown (s): what somebody who waits for it notices. A judgement.
START_FROM_S = 5.0
# From this many times its time per step on, a loop's iterations are longer than rounding explains (ratio).
_ROUNDING = 1.005


def fact_lines(report: Report) -> list[tuple[str, str]]:
    """(subject, what there is to say) of every section that has something to say; names are as in the trace."""
    makers: list[tuple[str, Callable[[Report], list[str]]]] = [
        ("Tracing", _tracing),
        ("Host", _host),
        ("Input", _inputs),
        ("Loops and layers", lambda each: [_loop(row) + _executions(row) for row in each.loops[:SHOWN]]),
        ("Compute", _compute),
        ("Memory", _memory),
        ("Pod", lambda each: pod_lines(each.pod)),
        ("Hosts", lambda each: [] if each.pod else _hosts(each)),
        ("Between slices", lambda each: [_message(row) for row in each.slice_messages[:SHOWN]]),
        ("Steps", _steps),
        ("Uneven steps", _outliers),
        ("Drift", _drift),
        ("Phases", _phases),
        ("CPU fallbacks", _fallbacks),
        ("Graph cuts", _graph_cuts),
        ("Start", _start),
        ("Compilation cache", _cache),
    ]
    return [(subject, of_steps(line, report)) for subject, make in makers for line in make(report)]


def _steps(report: Report) -> list[str]:
    """What a step is, where that was inferred; the verdict says it where it is of low confidence."""
    return [report.steps.note] if report.steps.note and report.steps.confidence == "medium" else []


def _tracing(report: Report) -> list[str]:
    phases = report.tracing.phases
    if not phases or report.tracing.step_ms_if_free is None:
        return []
    exposed = sum(each.exposed_ms_per_step for each in phases)
    hidden = sum(each.hidden_ms_per_step for each in phases)
    parts = [
        f"{phase_title(each.name)} {format_ms(each.exposed_ms_per_step + each.hidden_ms_per_step)}"
        for each in phases
    ]
    line = (
        f"{format_ms(exposed)} per step exposed, {format_ms(hidden)} hidden ({', '.join(parts)}); "
        f"without any a step would take {format_ms(report.tracing.step_ms_if_free)} at least"
    )
    retraces = report.tracing.scan_retraces_per_step
    return [line + (f"; scans are traced again {_times(retraces)} per step" if retraces else "")]


def _host(report: Report) -> list[str]:
    """The lines of the program outside tracing that the device waits for most, each with what it calls in libraries."""
    if report.pod is not None and report.pod.lines:
        return line_facts(report.pod)
    parts = {row.part for row in report.host_stacks if row.part.startswith(HOST_PREFIX)}
    by_chance = _seen_by_chance(report)
    rows = [
        (name, each)
        for name in sorted(parts)
        for each in lines_told(report.host_stacks, name)
        if each.calls or (name, each.source) not in by_chance
    ]
    enough = LINE_FROM_STEP_SHARE * sum(each.ms_per_step for each in report.breakdown.values())
    rows = sorted((row for row in rows if row[1].ms and row[1].ms >= enough), key=lambda row: -row[1].ms)
    return [
        f"{_title(name, each, report.host_stacks)}: {_line(each)}, {format_ms(each.ms)} per step"
        for name, each in rows[:SHOWN]
    ]


def _line(where: Where) -> str:
    return where.text if where.calls else at_line(where.call, where.source)


def _title(part: str, where: Where, stacks: list[HostStackRow]) -> str:
    return BESIDE_CALLS if part == PYTHON and calls_programs(stacks, where) else title_of(part)


def _seen_by_chance(report: Report) -> set[tuple[str, str]]:
    """Parts and lines of which no more than a sample or two are known."""
    seen: Counter[tuple[str, str]] = Counter()
    for row in report.host_stacks:
        seen[row.part, row.source] += row.samples
    return {each for each, samples in seen.items() if 0 < samples < LINE_FROM_SAMPLES}


def _times(count: float) -> str:
    return "once" if count == 1 else f"{count:g} times"


def _inputs(report: Report) -> list[str]:
    """A line per host; of many hosts one for each diagnosis, of the host that waits most."""
    if report.pod is None:
        return [_input(row) for row in report.input]
    alike: dict[str, list[InputRow]] = {}
    for row in report.input:
        alike.setdefault(row.diagnosis, []).append(row)
    groups = sorted(alike.values(), key=lambda rows: -len(rows))
    return [_input_of(rows) for rows in groups[:SHOWN]]


def _input_of(rows: list[InputRow]) -> str:
    most = max(rows, key=lambda row: row.wait_ms_per_step)
    return f"{counted(len(rows), 'host')}: {_input(most)} on {most.host}" + (
        ", which waits most" if len(rows) > 1 else ""
    )


def _input(row: InputRow) -> str:
    by_processes = row.prefetch == "workers"
    unknown = "the trace does not show processes" if by_processes else "the capture saw none made"
    unknown = f"how long a batch takes is unknown: {unknown}"
    batch = f"a batch takes {format_ms(row.batch_ms)}" if row.batch_ms is not None else unknown
    waits = f"training waits {format_ms(row.wait_ms_per_step)} per step"
    return f"{diagnosis_title(row.diagnosis)}; {batch}, {waits}{_of_the_wait(row)}"


def _of_the_wait(row: InputRow) -> str:
    """What of the wait the device idles, as the end of a sentence: `input_wait` is that, and the rest costs nothing."""
    if format_ms(row.exposed_ms_per_step) == format_ms(row.wait_ms_per_step) or not row.exposed_ms_per_step:
        return ""
    return f", {format_ms(row.exposed_ms_per_step)} of it while the device idles"


def _loop(row: LoopRow) -> str:
    if row.kind != "while":
        return row.detail
    name = f"{row.direction} {row.name}".strip() + (f", inside {row.within}" if row.within else "")
    total = f"{format_ms(row.total_ms_per_step)} per step" if row.total_ms_per_step is not None else ""
    if not row.iteration_ms:
        return f"{name}: {total}; iterations {row.detail}"
    mean = sum(row.iteration_ms) / len(row.iteration_ms)
    return f"{name}: {row.trip_count} iterations of {format_ms(mean)}, {total}{_odd(row.outliers)}"


def _executions(row: LoopRow) -> str:
    """How often the loop ran, where its time per step is shorter than its iterations: it did not run in each step."""
    whole = sum(row.iteration_ms or [])
    if row.kind != "while" or row.total_ms_per_step is None or whole <= row.total_ms_per_step * _ROUNDING:
        return ""
    return f"; {counted(row.occurrences, 'execution')} in all captured steps"


def _odd(iterations: list[int]) -> str:
    """Which iterations stand out, as the end of a sentence; empty without any."""
    if not iterations:
        return ""
    said = ", ".join(map(str, iterations))
    return f"; iterations {said} stand out" if len(iterations) > 1 else f"; iteration {said} stands out"


def _compute(report: Report) -> list[str]:
    found = report.compute
    if found is None:
        return []
    parts = [f"MFU {format_share(found.mfu)}" if found.mfu is not None else f"MFU {found.mfu_note}"]
    if found.mfu is not None and found.mfu_note.startswith("a lower bound"):
        parts[0] += f" ({found.mfu_note.partition(';')[0]})"
    if found.sparse_core_ms_per_step is not None:
        beside = format_ms(found.sparse_core_hidden_ms_per_step or 0.0)
        parts.append(
            f"SparseCores {format_ms(found.sparse_core_ms_per_step)} per step, {beside} of it beside compute"
        )
    for name, ms in (
        ("float32 matmuls", found.float32_matmul_ms_per_step),
        ("copies and transposes", found.layout_copy_ms_per_step),
        ("padded ops", found.padded_ms_per_step),
    ):
        if ms:
            parts.append(f"{name} {format_ms(ms)} per step")
    kernels = [f"{each.name} {format_ms(each.self_ms_per_step)}" for each in found.kernels[:SHOWN]]
    return ["; ".join(parts) + (f"; custom calls: {', '.join(kernels)}" if kernels else "")]


def _shape_text(shape: str) -> str:
    """A shape for a line of text: a tuple's may name hundreds of arrays."""
    return f"tuple of {counted(shape.count('['), 'array')}" if shape.startswith("(") else shape


def _memory(report: Report) -> list[str]:
    memory = report.memory
    if memory.peak_bytes is None:
        return []
    of = f" of {format_bytes(memory.capacity_bytes)}" if memory.capacity_bytes else ""
    largest = [
        f"{each.name} {_shape_text(each.shape)} {format_bytes(each.bytes)}" for each in memory.buffers[:SHOWN]
    ]
    names = {"host": "beside it in host memory"}
    kinds = [f"{names.get(kind, kind)} {format_bytes(size)}" for kind, size in memory.by_kind.items() if size]
    which = f" in {memory.program.partition('(')[0]}" if memory.program else ""
    line = f"{format_bytes(memory.peak_bytes)}{of} per device{which} ({', '.join(kinds)})"
    line += f"; largest: {', '.join(largest)}" if largest else ""
    if memory.allocator:
        most = max(row.most_bytes for row in memory.allocator)
        line += (
            f"; the runtime's allocator held at most {format_bytes(most)} on one device, without temporaries"
        )
    return [line]


def _hosts(report: Report) -> list[str]:
    found = report.hosts
    late = [
        f"{_device(row, report)} comes last of its host's chips: it waits {format_ms(row.waited_ms)} in barriers over "
        f"the capture ({format_ms(row.waited_ms_in_steps)} of it in steps); the chip that waits "
        f"most waits {format_ms(row.late_ms)} longer"
        for row in found.chip_waits
        if row.late_ms
    ]
    return [*_late_hosts(report), *late]


def _device(row: ChipWaitRow, report: Report) -> str:
    several = len({each.host for each in report.hosts.chip_waits}) > 1
    return f"{row.device} of {row.host}" if several else row.device


def _late_hosts(report: Report) -> list[str]:
    found = report.hosts
    if found.lag_ms_per_step is None:
        return []
    if not found.straggler:
        return [
            f"{len(found.hosts)} hosts, none late beyond {format_ms(found.lag_ms_per_step)} per step; {found.clocks}"
        ]
    return [f"{found.straggler} comes last and costs the others {format_ms(found.lag_ms_per_step)} per step"]


def _outliers(report: Report) -> list[str]:
    rows = report.steadiness.outliers
    if rows and runs_ahead(report):
        return [_longest_ahead(max(rows, key=lambda row: row.wall_ms))]
    return [_outlier(row) for row in rows[:SHOWN]]


def _longest_ahead(row: OutlierRow) -> str:
    """The longest step where the host runs ahead of the device: what the host itself does in it, or that it waits."""
    own = {name: ms for name, ms in row.reasons.items() if part_of(name).replay is Replay.WORK}
    took = f"step {row.step} took {format_ms(row.wall_ms)}"
    if sum(own.values()) >= _OWN_FROM_SHARE * row.wall_ms:
        return f"{took}: {_more(own)}"
    return f"{took}: the host runs ahead of the device, and waits there for the work of the steps before"


def _more(reasons: dict[str, float]) -> str:
    return ", ".join(f"{name} {format_ms(ms)} more" for name, ms in reasons.items())


def _outlier(row: OutlierRow) -> str:
    reasons = _more(row.reasons)
    took = f"step {row.step} took {format_ms(row.wall_ms)}, {format_ms(row.excess_ms)} over the median"
    if row.earlier_ms:
        waits = f"waits there for {format_ms(row.earlier_ms)} of earlier steps' work"
        return f"{took}: the host runs ahead of the device, and {waits}{', ' if reasons else ''}{reasons}"
    return f"{took}: {reasons or 'no one part grew'}"


def _drift(report: Report) -> list[str]:
    drift = report.steadiness.drift_ms
    if drift is None:
        return []
    return [f"steps became {format_ms(abs(drift))} {'longer' if drift > 0 else 'shorter'} over the capture"]


def _fallbacks(report: Report) -> list[str]:
    rows = report.fallbacks[:SHOWN]
    return [
        each.op
        + (f", {_times(each.per_step)} per step" if each.per_step is not None else "")
        + (f", {format_ms(each.ms_per_step)} per step fetching its inputs" if each.ms_per_step else "")
        + (
            f", {'the gradient of' if each.gradient else 'at'} {places_text(each.places)}"
            if each.source
            else ""
        )
        + (f", in {in_package(each.inside)}" if each.inside else "")
        for each in rows
    ]


# Cuts that neither a sync nor a read that the program calls explains.
CUT_BY_OTHERS = "by nothing that the program calls: an implicit read, or an op that runs on the host"


def _phases(report: Report) -> list[str]:
    lines = []
    for name in dict.fromkeys(row.name for row in report.phases):
        rows = [row for row in report.phases if row.name == name]
        total = format_ms(sum(row.duration_ms for row in rows))
        apart = "" if any(row.inside for row in rows) else ", left out of the steps"
        lines.append(f"{name}: {_times(len(rows))}, {total} in all{apart} ({rows[0].evidence})")
    return lines


def _graph_cuts(report: Report) -> list[str]:
    rows = report.graph_cuts
    if sum(each.per_step for each in rows) <= 1:
        return []
    lines = [
        f"{_graphs(each.per_step, report.steps.count)} "
        + (CUT_BY_OTHERS if each.call == OTHER_CUT else f"by {each.call}")
        + (f" at {each.source}" if each.source else "")
        for each in rows[:SHOWN]
    ]
    left = len(rows) - SHOWN
    return [*lines, f"and {counted(left, 'more line')} (--json)"] if left > 0 else lines


def _message(row: SliceMessageRow) -> str:
    many = "" if row.messages_per_step == 1 else "s"
    text = (
        f"slice {row.from_slice} to {row.to_slice}: {row.messages_per_step:.3g} message{many} with "
        f"{format_bytes(round(row.bytes_per_step))} per step by {row.collective}"
    )
    if row.mean_ms is None or row.longest_ms is None:
        return f"{text}; the clocks of the hosts disagree, so their time is unknown"
    return (
        f"{text}, each on its way for {format_ms(row.mean_ms)}, the slowest for {format_ms(row.longest_ms)}"
    )


def _graphs(per_step: float, steps: int) -> str:
    """How many graphs: of fewer than one per step, how many in all."""
    if per_step < 1 and steps:
        return f"{counted(round(per_step * steps), 'graph')} in {counted(steps, 'step')}"
    return f"{per_step:.3g} graph{'s' if per_step != 1 else ''} per step"


def _start(report: Report) -> list[str]:
    """Compiles before the captured steps, where no finding is about them."""
    history = report.compile_history
    seconds = history.seconds_before or 0.0
    found = any(each.rule == "slow-compile" and each.status == "failed" for each in report.findings)
    if found or seconds < START_FROM_S:
        return []
    graphs = counted(history.graphs_before or 0, "graph")
    at = f", longest at {history.source_before}" if history.source_before else ""
    return [f"{graphs} compiled before the captured steps, in {format_ms(seconds * MS_PER_S)}{at}"]


def _cache(report: Report) -> list[str]:
    cache = report.compilation_cache
    state = cache_title(cache.status)
    if not state or (cache.status == "off" and not report.compiles):
        return []
    return [state + (f" ({cache.detail})" if cache.detail else "")]
