"""One point of a search for real: trace the changed script, look at its memory, compile, predict."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from tpuprof.decode.hlo_proto import parse_module_proto
from tpuprof.decode.hlo_shape import ELEMENT_TYPES, HBM, Shape
from tpuprof.preflight.combined import Iteration
from tpuprof.preflight.compiler import CompileOptions
from tpuprof.preflight.graphs import Graph
from tpuprof.preflight.memory import resident_bytes
from tpuprof.preflight.prediction import split_ms
from tpuprof.preflight.run import Outcome, Progress, Traces, Variant, preflight, to_compile, trace_for
from tpuprof.preflight.script import ScriptRun, Trace
from tpuprof.preflight.search.choices import FLAG_VARIABLE, Point, changed, label_of, value_of
from tpuprof.preflight.search.front import COMPILED, FAILED, TOO_LARGE, Result
from tpuprof.preflight.search.own import Offered, batch_option, offered, option_value
from tpuprof.preflight.targets import Target
from tpuprof.units import format_bytes, ps_to_ms

_PRODUCTS = frozenset({b"dot", b"convolution"})


@dataclass
class Evaluator:
    """Evaluates points of one script on one slice. Scripts with equal settings are traced once.

    `samples` is what one step trains where no setting changes that; `batch` the name of the setting that does, `taken`
    are the settings that the user asked for.
    """

    run: ScriptRun
    target: Target
    options: CompileOptions
    progress: Progress
    samples: float | None = None
    batch: str = ""
    taken: frozenset[str] = frozenset()
    _own_batch: float | None = None
    _traces: dict[str, Traces] = field(default_factory=dict)

    def __call__(self, point: Point, again: bool = False) -> Result:
        """A point's result; with `again` the script is traced again and the cache is not used."""
        run = changed(self.run, point)
        variant = Variant(label_of(point), run)
        traces = {} if again else self._traces.setdefault(_traced_by(run), {})
        trace = trace_for(variant, traces, self.target, self.progress)
        result = Result(
            point, COMPILED, samples=self._samples(run, trace), capacity=self.target.chip.hbm_usable_bytes
        )
        result.programs = tuple(graph.fingerprint for graph, _ in trace.iteration)
        result.products = dict(sum((products_of(graph) for graph, _ in trace.iteration), Counter()))
        if not trace.trains:
            return replace(result, status=FAILED, why="no update of weights was seen: not a training step")
        least = max(least_bytes(graph, self.target) for graph in to_compile(trace))
        if least > result.capacity:
            why = f"inputs alone take {format_bytes(least)}; not compiled"
            return replace(result, status=TOO_LARGE, hbm=least, why=why)
        options = replace(self.options, cache=None) if again else self.options
        outcome = preflight(variant, [self.target], options, False, self.progress, traces)
        return _read(result, outcome, trace)

    def offers(self) -> Offered:
        """What the script as it is offers to a search by itself; its trace is known by then."""
        trace = next(iter(self._traces[_traced_by(self.run)].values()))
        products = dict(sum((products_of(graph) for graph, _ in trace.iteration), Counter()))
        return offered(trace, products, self.target, self.taken)

    def _samples(self, run: ScriptRun, trace: Trace) -> float | None:
        """Samples of one step: the batch's value, times what the user says of the script as it is."""
        option = batch_option(trace)
        name = self.batch or (option["name"] if option else "")
        value = _number(option_value(trace, name) if name else None)
        value = _number(value_of(run, name)) if value is None and name else value
        if run == self.run:
            self._own_batch = value
        if self.samples is None:
            return value
        if self.batch:
            return value
        return self.samples * value / self._own_batch if value and self._own_batch else self.samples


def _number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None


def _traced_by(run: ScriptRun) -> str:
    """What decides a trace: all settings but the compiler's flags, which the script does not see."""
    environment = sorted((name, value) for name, value in run.environment.items() if name != FLAG_VARIABLE)
    return repr((run.arguments, environment))


def _read(result: Result, outcome: Outcome, trace: Trace) -> Result:
    each = outcome.iterations()[0]
    result.outcome, result.programs = outcome, (*result.programs, str(len(trace.iteration)))
    compiled = [found.compiled for found, _ in each.parts]
    result.compiles = sum(1 for one in compiled if not one.cached)
    result.compile_s = sum(one.seconds for one in compiled)
    result.hbm = each.memory.total if each.memory else None
    flops = [found.flops and found.flops * count for found, count in each.parts]
    result.flops = sum(one for one in flops if one) if None not in flops else None
    result.collectives = any(found.collectives for found, _ in each.parts)
    if each.memory is not None and not each.memory.fits:
        result.hbm = max(result.hbm or 0, each.memory.capacity + each.memory.shortfall)
        return replace(result, status=TOO_LARGE, why=each.verdict)
    if each.step_ms is None:
        return replace(result, status=FAILED, why=next(one.error or one.status for one in compiled)[:300])
    result.step_ms = each.step_ms
    result.exposed_ms, result.guessed_ms = _uncertain(each)
    return result


def _uncertain(each: Iteration) -> tuple[float, float]:
    """Time in a step that is priced by links, and time that the compiler has no estimate for (ms)."""
    exposed = guessed = 0.0
    for found, count in each.parts:
        if found.schedule is not None:
            split = split_ms(found.schedule)
            exposed += count * (split["collective_exposed"] + split["offload_exposed"])
            guessed += count * ps_to_ms(found.schedule.guessed_ps)
    return exposed, guessed


def least_bytes(graph: Graph, target: Target) -> int:
    """Bytes that a graph takes at the least on one device: its inputs, spread evenly where it is sharded."""
    module = parse_module_proto(graph.proto)
    entry = next(each for each in module.computations if each.id == module.entry_computation_id)
    inputs = sum(
        Shape(ELEMENT_TYPES.get(each.shape.element_type, "opaque"), tuple(each.shape.dimensions)).bytes
        for each in entry.instructions
        if each.opcode == b"parameter" and each.shape.layout.memory_space == HBM
    )
    spread = graph.devices(target.devices) if graph.spmd else 1
    return inputs // spread + resident_bytes(graph)


def products_of(graph: Graph) -> Counter[str]:
    """Matrix products and convolutions of a graph by the types of their operands, as `bf16 x bf16`."""
    found: Counter[str] = Counter()
    for computation in parse_module_proto(graph.proto).computations:
        made = {each.id: each.shape.element_type for each in computation.instructions}
        for each in computation.instructions:
            if each.opcode in _PRODUCTS:
                found[
                    " x ".join(ELEMENT_TYPES.get(made.get(row, 0), "?") for row in each.operand_ids[:2])
                ] += 1
    return found
