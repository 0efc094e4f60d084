"""Preflight of programs that are given as files: compiled for each slice, or read where a TPU compiler made them."""

from __future__ import annotations

from tpuprof.decode.hlo import HloModule
from tpuprof.decode.hlo_shape import HBM, HOST_MEMORY
from tpuprof.errors import Code, TpuprofError
from tpuprof.preflight.compiler import Compiled, CompileOptions, compile_all
from tpuprof.preflight.graphs import Graph
from tpuprof.preflight.iteration import Event, Search
from tpuprof.preflight.memory import peak_bytes
from tpuprof.preflight.prediction import Prediction, predict, predict_module
from tpuprof.preflight.program_files import Program, Source, complete, read_programs, to_graph
from tpuprof.preflight.run import Outcome, Progress, Variant
from tpuprof.preflight.script import ScriptRun, Trace
from tpuprof.preflight.targets import Target

_ORIGINAL = (
    "Give the script, or the program before optimization (of an --xla_dump_to folder *.before_optimizations)."
)
# Programs of a dump that may be its step: those with this share of the largest one's instructions at least. The first
# step of a small model with Adam has a tenth more than the second, an evaluation about a third of both.
ALIKE_SHARE = 0.6
_YOUR_WORD = "that it was made for this chip is your word; "
AS_IT_IS = (
    "the program is a TPU compiler's result and was read as it is: {word}temporaries are what its schedule keeps alive "
    "at once, and code is not in it"
)


def preflight_programs(
    source: Source, targets: list[Target], options: CompileOptions, all_programs: bool, progress: Progress
) -> Outcome:
    """Judge the program of a source that is most likely its step (or all of them) for each slice.

    Raises `TpuprofError` where none can be read, or where a program is for another number of devices than a slice has.
    """
    programs = _step_first(read_programs(source, options))
    chosen = programs if all_programs else programs[:1]
    for each in chosen:
        if each.optimized:
            complete(each, options)
    progress(f"{source.path}: {len(programs)} program(s), taken: {', '.join(each.name for each in chosen)}")
    run = ScriptRun(str(source.path), environment=options.environment)
    outcome = Outcome(Variant(source.path.name, run))
    graphs = [(each, to_graph(each, number)) for number, each in enumerate(chosen)]
    for target in targets:
        outcome.traces[target.devices, ""] = _as_trace(programs, [graph for _, graph in graphs], target)
        for program, _ in graphs:
            _refuse_unfit(program, target)
    jobs = [(graph, target) for target in targets for program, graph in graphs if not program.optimized]
    compiled = {
        (each.graph.number, each.target.name): predict(each) for each in compile_all(jobs, options, progress)
    }
    outcome.predictions = [
        compiled.get((graph.number, target.name)) or read_as_it_is(program, graph, target)
        for target in targets
        for program, graph in graphs
    ]
    return outcome


def _step_first(programs: list[Program]) -> list[Program]:
    """The programs, the step before the others: of those about as large as the largest, what gives back most state.

    In a dump of a training script the first step makes the optimizer's state, and the second one updates it in place.
    """
    sizes = [sum(1 for _ in each.module.instructions()) for each in programs]
    alike = [each for each, size in zip(programs, sizes, strict=True) if size >= ALIKE_SHARE * max(sizes)]
    step = max(alike, key=_donated_bytes) if len(alike) > 1 else programs[0]
    return [step, *(each for each in programs if each is not step)]


def _donated_bytes(program: Program) -> int:
    """Bytes of the arguments whose buffers a program may take for its results."""
    shapes = {each.parameter_number: each.shape for each in program.module.entry.parameters()}
    donated = {*program.module.aliases, *(to_graph(program).donors if not program.optimized else ())}
    return sum(shapes[number].bytes for number in donated if number in shapes)


def read_as_it_is(program: Program, graph: Graph, target: Target) -> Prediction:
    """A scheduled TPU program's prediction without a compile."""
    compiled = Compiled(graph, target, "compiled", 0.0, module_memory(program.module))
    found = predict_module(compiled, program.module)
    found.warnings.insert(0, AS_IT_IS.format(word="" if program.chip else _YOUR_WORD))
    compiled.hlo_proto = program.proto
    return found


def module_memory(module: HloModule) -> dict[str, int]:
    """Bytes by kind as a compiled program has them, from a scheduled module alone; code is 0, since it is not in it."""
    root = module.entry.root
    outputs = (root.shape.elements or (root.shape,)) if root is not None else ()
    parameters = {each.parameter_number: each.shape for each in module.entry.parameters()}
    shared = sum(parameters[number].bytes_in(HBM) for number in module.aliases if number in parameters)
    return {
        "argument": sum(shape.bytes_in(HBM) for shape in parameters.values()),
        "output": sum(shape.bytes_in(HBM) for shape in outputs),
        "alias": shared,
        "temp": peak_bytes(module),
        "generated_code": 0,
        "host_argument": sum(shape.bytes_in(HOST_MEMORY) for shape in parameters.values()),
    }


def _as_trace(programs: list[Program], graphs: list[Graph], target: Target) -> Trace:
    """A given program stands for one step: there is no script, and so no other step."""
    main = graphs[0]
    search = Search([Event(main.key, True), Event(main.key, True)])
    return Trace(
        graphs,
        search,
        main.spmd,
        target.devices,
        0,
        0,
        {},
        0.0,
        source=f"{programs[0].source}, taken as one step",
    )


def _refuse_unfit(program: Program, target: Target) -> None:
    if program.optimized and not program.tpu:
        raise TpuprofError(
            Code.USAGE,
            f"{program.source} was optimized for another kind of device than a TPU (a CPU's has bfloat16 widened).",
            _ORIGINAL,
        )
    if program.optimized and program.chip and program.chip != target.chip.name:
        raise TpuprofError(
            Code.USAGE,
            f"{program.source} was compiled for {program.chip}, and no compiler takes that for {target.name}.",
            f"Give a slice of {program.chip}. For {target.chip.name}: {_ORIGINAL}",
        )  # fmt: skip
    if program.partitions > 1 and program.partitions != target.devices:
        raise TpuprofError(
            Code.USAGE, f"{program.source} is for {program.partitions} devices; {target.name} has {target.devices}.",
            "Choose a slice of that size, or make the program for the other.",
        )  # fmt: skip
