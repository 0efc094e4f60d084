"""Advice for a cause that was seen, and not for others."""

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.rules.given import compiled, given, step, steps
from tests.rules.situations import computed_again as read_again
from tests.rules.situations import dispatched, read_in_backward, reads, recompiled
from tests.rules.test_few_steps import asleep_in
from tpuprof.model.compile.cause import (
    NEW_FUNCTION,
    NEW_STATIC,
    SAME_PROGRAM,
    UNKNOWN_FUNCTION,
    WEAK_TYPE,
    WEIGHTS,
)
from tpuprof.model.compile.unseen import unseen_compiles
from tpuprof.model.host.reads import IMPLICIT, IMPLICIT_BACKWARD
from tpuprof.model.python_tools import ANOMALY
from tpuprof.model.telemetry import StepRecord
from tpuprof.model.verdict_words import READS_IN_STEPS_SHARE
from tpuprof.report.schema import Cause
from tpuprof.report.sections import HostStackRow, InputRow
from tpuprof.rules.docstring import Page
from tpuprof.rules.pricing import ROUNDS_NOT_IN_IT
from tpuprof.rules.registry import all_rules, find_rule
from tpuprof.rules.runner import outcome_of, run_rules
from tpuprof.rules.shared.host_cases import ADVISED_FROM_SHARE, NEAR_LINES, host_cases
from tpuprof.rules.shared.read_cases import LOOPS_FROM, SEVERAL_FROM
from tpuprof.signals.telemetry import CompileLimit

TEXT = """A rule.

## How to fix

For all.

[gil] For programs with threads,
in two lines.

[gc] For garbage.
"""


def stack(part, ms, frame="f (/home/u/train.py:1)"):
    return HostStackRow(part, [frame], "f()", "/home/u/train.py:1", "f()", ms, 0.0)


def test_paragraphs_of_other_cases_are_left_out():
    remedy = Page(TEXT).remedy("torch_xla")
    assert remedy.text_for(frozenset({"gil"})) == "For all. For programs with threads, in two lines."
    assert remedy.text_for(frozenset()) == "For all."
    assert remedy.text == "For all. For programs with threads, in two lines. For garbage."


@pytest.mark.parametrize("begins", ["", "[gil] "])
def test_brackets_inside_a_paragraph_are_code(begins):
    remedy = Page(f"A rule.\n\n## How to fix\n\n{begins}Write `x[mask] = v` so.\n").remedy("torch_xla")
    assert remedy.text_for(frozenset({"gil"})) == "Write `x[mask] = v` so."


def test_the_page_has_all_of_them_without_marks():
    page = Page(TEXT)
    assert "[g" not in page.text
    assert "For garbage." in page.sections["How to fix"]


@pytest.mark.parametrize(
    ("share", "named"), [(ADVISED_FROM_SHARE * 1.01, True), (ADVISED_FROM_SHARE * 0.99, False)]
)
def test_a_kind_counts_from_a_share(share, named):
    found = host_cases({"host:sleep": 1 - share, "host:gil": share}, [])
    assert found == ({"own", "sleep", "gil"} if named else {"own", "sleep"})


@pytest.mark.parametrize(
    ("part", "advised", "not_advised"),
    [
        ("host:lock", "let more threads or processes fill the queue", "Take this work out"),
        ("host:gil", "move that thread's Python to a process", "Take this work out"),
        ("user:gc", "leave `gc.collect()` out of the step", "Take this work out"),
        ("host:io", "Take this work out of the training thread", "fill the queue"),
        ("user:checkpoint", "Take this work out of the training thread", "garbage collections"),
    ],
)
def test_only_the_threads_own_work_can_be_taken_out_of_it(part, advised, not_advised):
    text = find_rule("host-blocked").page.remedy("torch_xla").text_for(host_cases({part: 5.0}, []))
    assert advised in text
    assert not_advised not in text


def test_flax_counts_where_it_walks_modules():
    walks = stack("host:python", 2.0, "flatten (/venv/lib/python3.11/site-packages/flax/nnx/graph.py:9)")
    assert "flax" in host_cases({"host:python": 4.0}, [walks, stack("host:python", 2.0)])
    assert "flax" not in host_cases({"host:python": 4.0}, [stack("host:python", 4.0)])


@pytest.mark.parametrize(
    ("call", "jax", "read"),
    [
        ("np.asarray(h)", True, True),
        ("np.array(h)", True, True),
        ("np.asarray(h).std()", True, False),
        ("pool.map(f, h)", True, False),
        ("np.asarray(h)", False, False),
    ],
)
def test_a_wait_for_an_array_of_jax_is_a_read(call, jax, read):
    waits = HostStackRow("host:wait", ["f (/home/u/train.py:1)"], call, "/home/u/train.py:1", call, 3.0, 0.0)
    cases = host_cases({"host:wait": 4.0}, [waits], jax=jax)
    assert ("read" in cases, "own" in cases) == (read, not read)
    text = find_rule("host-blocked").page.remedy("jax").text_for(cases)
    assert ("wait until the device has computed it" in text, "worker processes" in text) == (read, not read)


def test_other_work_beside_a_read_keeps_its_advice():
    waits = HostStackRow(
        "host:wait", ["f (/home/u/train.py:1)"], "np.asarray(h)", "/a.py:1", "np.asarray(h)", 3.0, 0.0
    )
    assert {"read", "own", "python"} <= host_cases({"host:wait": 4.0, "host:python": 4.0}, [waits], jax=True)


@pytest.mark.parametrize(("looking", "own"), [(4.0, False), (2.0, True)])
def test_who_looks_at_a_program_is_told_to_look_once(looking, own):
    lower = "lower (/venv/lib/python3.11/site-packages/jax/_src/stages.py:736)"
    rows = [stack("host:python", looking, lower), stack("host:python", 4.0 - looking)]
    cases = host_cases({"host:python": 4.0}, rows, jax=True)
    assert ("program" in cases, "own" in cases, "python" in cases) == (True, own, own)
    text = find_rule("host-blocked").page.remedy("jax").text_for(cases)
    assert ("ask once, before the loop" in text, "worker processes" in text) == (True, own)


CALL = "_call_impl (/v/site-packages/torch/nn/modules/module.py:9)"
LINEAR = "forward (/v/site-packages/torch/nn/modules/linear.py:9)"


@pytest.mark.parametrize(
    ("part", "frames", "module"),
    [
        ("host:python", ["f (/home/u/train.py:1)", CALL, LINEAR], True),
        # Python of the program's own in a module, waits of a module that traces, and torch outside of modules.
        ("host:python", ["f (/home/u/train.py:1)", CALL, "forward (/home/u/net.py:3)"], False),
        ("host:gil", ["f (/home/u/train.py:1)", CALL, LINEAR], False),
        ("host:python", ["f (/home/u/train.py:1)", "stack (/v/site-packages/torch/functional.py:9)"], False),
    ],
)
def test_a_module_that_computes_on_the_host_is_to_be_moved(part, frames, module):
    row = HostStackRow(part, frames, "f()", "/home/u/train.py:1", "teacher(x)", 5.0, 0.0)
    text = find_rule("host-blocked").page.remedy("torch_xla").text_for(host_cases({part: 5.0}, [row]))
    assert ("move it and its inputs to the device" in text) is module


@pytest.mark.parametrize(
    ("part", "frames", "call", "dependent"),
    [
        ("host:python", ["<module> (/u/knn.py:69)", "neighbours (/u/knn.py:40)"], "f()", True),
        ("host:python", [f"<module> (/u/knn.py:{69 + NEAR_LINES})"], "f()", True),
        ("host:python", [f"<module> (/u/knn.py:{69 + NEAR_LINES + 1})"], "f()", False),
        # Before the read, at the same line of another file, and where the thread waits or writes.
        ("host:python", ["<module> (/u/knn.py:68)"], "f()", False),
        ("host:python", ["<module> (/u/data.py:69)"], "f()", False),
        ("host:python", ["<module> (/u/knn.py:70)"], "pickle.dump(weights, f)", False),
        ("host:io", ["<module> (/u/knn.py:69)"], "f()", False),
    ],
)
@pytest.mark.parametrize("framework", ["torch_xla", "torch_tpu", "jax"])
def test_work_on_a_value_that_the_step_has_just_read_is_for_the_device(
    part, frames, call, dependent, framework
):
    row = HostStackRow(part, frames, call, "/u/knn.py:40", call, 5.0, 0.0)
    cases = host_cases({part: 5.0}, [row], reads=["/u/knn.py:69", "elsewhere"])
    text = find_rule("host-blocked").page.remedy(framework).text_for(cases)
    assert ("no other thread can take it over" in text) is dependent
    assert "Take this work out" in text


@pytest.mark.parametrize(
    ("part", "call", "garbage"),
    [
        ("host:python", "gc.collect()", True),
        ("host:python", "gc.collect(2)", True),
        ("host:python", "log.collect()", False),
        # Another thread makes it wait there.
        ("host:gil", "gc.collect()", False),
    ],
)
@pytest.mark.parametrize("framework", ["torch_xla", "torch_tpu", "jax"])
def test_a_line_that_collects_garbage_has_the_advice_on_that(part, call, garbage, framework):
    """TorchTPU has no event of a collection: the line was told to be written for arrays, and not to synchronize."""
    row = HostStackRow(part, ["<module> (/u/t.py:70)"], call, "/u/t.py:70", call, 5.0, 0.0)
    cases = host_cases({part: 5.0}, [row], reads=["/u/t.py:69"])
    text = find_rule("host-blocked").page.remedy(framework).text_for(cases)
    assert ("leave `gc.collect()` out of the step" in text) is garbage
    assert ("Take this work out" in text) is (part == "host:python" and not garbage)
    assert not garbage or ("Python loop" not in text and "synchronize" not in text)


@pytest.mark.parametrize(
    ("share", "garbage"), [(ADVISED_FROM_SHARE * 1.01, True), (ADVISED_FROM_SHARE * 0.99, False)]
)
def test_garbage_beside_other_work_has_advice_from_a_share_on(share, garbage):
    rows = [
        HostStackRow("host:python", ["f (/u/t.py:7)"], call, "/u/t.py:7", call, ms, 0.0)
        for call, ms in (("gc.collect()", share), ("f(x)", 1 - share))
    ]
    cases = host_cases({"host:python": 1.0}, rows)
    assert ("gc" in cases, "own" in cases, "python" in cases) == (garbage, True, True)


def test_a_run_that_sleeps_is_not_told_of_garbage():
    (found,) = run_rules(asleep_in(8), [find_rule("host-blocked")])
    assert "Take this work out of the training thread" in found.fix.text
    assert "gc.freeze" not in found.fix.text


_AHEAD = unseen_compiles([], [StepRecord(0, 0, captured=True, counters={"UncachedCompile": 3})])[0]


@pytest.mark.parametrize(
    ("notes", "returns", "said"),
    [
        ([_AHEAD], "never", ["Capture later steps (`--warmup`)"]),
        ([_AHEAD], "yes", ["Capture more steps (`--steps`)"]),
        ([_AHEAD], "", ["Capture more steps (`--steps`)"]),
        (["3 of 8 steps"], "yes", ["Capture fewer steps"]),
        (["3 of 8 steps", _AHEAD], "never", ["Capture fewer steps", "Capture later steps"]),
    ],
)
def test_a_host_that_ran_ahead_of_its_compiles_is_no_reason_to_capture_fewer_steps(notes, returns, said):
    rule = find_rule("truncated-trace")
    found = outcome_of(rule, given(missing=notes, off_device=0, compiles_return=returns, sees_device=False))
    text = rule.page.remedy("torch_tpu").text_for(found.cases)
    assert text.count("Capture ") == len(said)
    assert all(each in text for each in said)


def test_each_mark_is_a_case_that_its_rule_can_give():
    given = {
        "host-blocked": {
            "own",
            "lock",
            "python",
            "gil",
            "gc",
            "callback",
            "flax",
            "module",
            "program",
            "read",
            "dependent",
        },
        "input-starved": {"again", "back", "arguments", "batches", "workers", "restarts"},
        "uneven-steps": {"work", "input", "read", "gc", "gil", "profiler"},
        "recompiles-constant": {"closure", "number"},
        "recompiles-other": {
            "function",
            "static",
            "number",
            "flow",
            "ask",
            "other",
            "ends",
            "unseen",
            "grows",
            "decides",
            "seldom",
        },
        "recompiles-shape": {"grows", "kept", "batch", "weights"},
        "device-to-host-sync": {
            "value",
            "several",
            "early",
            "wait",
            "branch",
            "arrays",
            "library",
            "optimizer",
            "loop",
            "sized",
            "anomaly",
            "backward",
        },
        "debug-tool-on": {"memory", "command", "checked", "hook", "anomaly", "setting", "leaks"},
        "straggler-host": {"alone", "turns"},
        "barrier-skew": {"alone", "turns"},
        "eager-dispatch": {"ops", "beside", "backward", "limit", "slices", "torchax", "buffer"},
        "truncated-trace": {"lost", "start", "ahead"},
        "optimizer-loop": {"torch", "trainer", "own"},
        "graph-breaks": {"limit"},
        "slow-compile": {"large", "lines", "many", "reads", "later"},
        "persistent-cache-off": {"loads", "cpu"},
        "aten-fallback": {"again", "selecting"},
        "eager-mode": {"whole", "rest"},
        "sort-bound": {"random", "values"},
        "exposed-collectives": {"activations"},
    }
    for rule in all_rules():
        marks = {case for remedy in rule.page.remedies.values() for case, _ in remedy.paragraphs if case}
        assert marks <= given.get(rule.id, set())


def test_a_function_that_torch_compile_gave_up_on_is_not_to_be_compiled():
    limit = CompileLimit("train.py:8", "k == 2", "8")
    limited, free = (
        run_rules(given(**{**dispatched(), "noted_compile_limits": rows}), [find_rule("eager-dispatch")])[0]
        for rows in ([limit], [])
    )
    assert limited.title.startswith(
        "torch.compile gave up on the function at train.py:8 after 8 compiles. Ops run "
    )
    assert "train.py:8" in [each.source for each in limited.evidence]
    assert "Make what changed the same" in limited.fix.text
    assert "Compile the model" not in limited.fix.text
    assert "Compile the model" in free.fix.text


@pytest.mark.parametrize(
    ("cause", "said", "not_said"),
    [
        ("input_wait", "batches come late", "save_async"),
        ("device_to_host_sync", "wait for a value", "save_async"),
        ("user:checkpoint", "save_async", "batches come late"),
        ("user:gc", "gc.freeze()", "save_async"),
        ("host:gil", "queue.put", "save_async"),
    ],
)
def test_what_makes_steps_uneven_decides_the_advice(cause, said, not_said):
    slow = [*steps(4), step(160, 4, **{cause: 60.0})]
    (found,) = run_rules(given(steps=slow, framework="torch_xla"), [find_rule("uneven-steps")])
    assert said in found.fix.text
    assert not_said not in found.fix.text


@pytest.mark.parametrize(
    ("diagnosis", "case"),
    [("slow_workers", "workers"), ("restarted_workers", "restarts"), ("no_prefetch", "batches")],
)
def test_who_makes_the_batches_decides_the_advice(diagnosis, case):
    row = InputRow("host0", "none", 1.0, None, 30.0, 30.0, 0.0, diagnosis)
    signals = given(steps=steps(input_wait=30.0), report={"input": [row]}, stacks_if_sampled=[])
    assert outcome_of(find_rule("input-starved"), signals).cases == {case}


@pytest.mark.parametrize(
    ("call", "framework", "cases"),
    [
        ("item", "torch_xla", {"value"}),
        ("__bool__", "torch_xla", {"branch"}),
        # It may be a loss for a log, or an array for NumPy: both are named.
        ("cpu", "torch_xla", {"arrays", "value"}),
        ("numpy", "torch_tpu", {"arrays", "value"}),
        ("device_get", "jax", {"arrays", "value"}),
        ("__float__", "jax", {"value"}),
        ("__bool__", "jax", {"branch"}),
        ("block_until_ready", "jax", {"wait"}),
        ("wait_device_ops", "torch_xla", {"wait"}),
        (IMPLICIT, "torch_xla", {"sized"}),
        ("synchronize", "torch_tpu", {"wait"}),
    ],
)
def test_what_a_value_is_read_for_decides_the_advice(call, framework, cases):
    rule = find_rule("device-to-host-sync")
    outcome = rule.check(given(**reads(1.0, 0.5, 50.0, call), framework=framework))
    assert outcome.cases == cases
    text = rule.page.remedy(framework).text_for(outcome.cases)
    assert ("let the device decide" in text) == (cases == {"branch"})
    assert ("computes with" in text) == ("arrays" in cases)
    assert ("Keep values on the device" in text) == ("value" in cases)
    assert ("whose size the device finds" in text) == (cases == {"sized"})
    assert ("reads nothing" in text or "read nothing" in text) == ("wait" in cases)


@pytest.mark.parametrize(
    ("reads_per_step", "call", "several"),
    [(SEVERAL_FROM - 0.1, "item", False), (SEVERAL_FROM, "item", True), (3.0, "__bool__", False)],
)
def test_several_values_of_a_step_are_to_be_read_at_once(reads_per_step, call, several):
    """A program with one read was told to stack its values, and one without waits to leave them out."""
    rule = find_rule("device-to-host-sync")
    situation = reads(1.0, 0.5, 50.0, call)
    (row,) = situation["report"]["host_reads"]
    rows = [replace(row, occurrences=round(reads_per_step * len(situation["steps"])))]
    outcome = rule.check(given(**{**situation, "report": {"host_reads": rows}}, framework="torch_xla"))
    text = rule.page.remedy("torch_xla").text_for(outcome.cases)
    assert ("stack them and read once" in text) is several


@pytest.mark.parametrize("framework", ["torch_xla", "torch_tpu", "jax"])
@pytest.mark.parametrize(("reads_per_step", "loop"), [(LOOPS_FROM - 0.1, False), (LOOPS_FROM, True)])
def test_a_number_that_is_read_again_and_again_may_end_a_loop(framework, reads_per_step, loop):
    """Sinkhorn's rounds ended by `float(error) < limit`: 10 ms per step, and 3 by `while_loop`, which was not advised."""
    rule = find_rule("device-to-host-sync")
    situation = reads(1.0, 0.5, 50.0, "__float__")
    (row,) = situation["report"]["host_reads"]
    rows = [replace(row, occurrences=round(reads_per_step * len(situation["steps"])))]
    outcome = rule.check(given(**{**situation, "report": {"host_reads": rows}}, framework=framework))
    text = rule.page.remedy(framework).text_for(outcome.cases)
    assert ("Where the value ends a Python loop (" in text) is loop
    assert ("jax.lax.while_loop" in text) is (loop and framework == "jax")
    assert (outcome.price.note == ROUNDS_NOT_IN_IT) is loop


@pytest.mark.parametrize(
    ("tools", "cases", "said", "not_said"),
    [
        (
            [ANOMALY],
            {"anomaly"},
            "leave out `torch.autograd.set_detect_anomaly(True)`",
            "keep such parameters",
        ),
        (["tracemalloc"], {"backward"}, "keep such parameters on the device", "set_detect_anomaly"),
    ],
)
def test_reads_in_the_backward_pass_are_of_anomaly_detection_where_it_was_on(tools, cases, said, not_said):
    """They were to be read after `torch_xla.sync()`, and a library's check to be turned off."""
    rule = find_rule("device-to-host-sync")
    situation = {**reads(1.0, 0.5, 50.0, IMPLICIT_BACKWARD), "python_tools_if_noted": tools}
    outcome = rule.check(given(**situation, framework="torch_xla"))
    assert (outcome.status, outcome.cases) == ("failed", cases)
    text = rule.page.remedy("torch_xla").text_for(outcome.cases)
    assert said in text
    assert not_said not in text


@pytest.mark.parametrize(
    ("tool", "framework", "said"),
    [
        ("tracemalloc", "torch_xla", "`tracemalloc.stop()` ends"),
        ("coverage", "torch_tpu", "`coverage run`"),
        ("a debugger (pydevd)", "jax", "or a debugger"),
        ("Python's development mode (-X dev)", "torch_xla", "`PYTHONDEVMODE`"),
        ("PYTHONMALLOC", "jax", "`PYTHONMALLOC` out of the command"),
        ("settrace of train", "torch_xla", "`sys.settrace(None)`"),
        (ANOMALY, "torch_xla", "computes the step again from its start"),
        (ANOMALY, "torch_tpu", "while you look for a NaN"),
        ("jax_debug_nans", "jax", "of the same name in capitals"),
        ("jax_check_tracer_leaks", "jax", "has each call traced"),
        ("memray", "torch_xla", ""),
    ],
)
def test_the_advice_is_for_the_tools_that_were_found(tool, framework, said):
    """With anomaly detection alone it began "`tracemalloc.stop()` ends the first"."""
    rule = find_rule("debug-tool-on")
    outcome = rule.check(given(python_tools=[tool], steps=steps(tracing=50.0), report={"host_reads": []}))
    text = rule.page.remedy(framework).text_for(outcome.cases)
    own = (
        "`tracemalloc",
        "`coverage",
        "PYTHONMALLOC",
        "`sys.settrace",
        "set_detect_anomaly",
        "JAX_DEBUG_NANS",
    )
    assert text.startswith("Train without the tool")
    assert said in text
    assert sum(each in text for each in own) == (1 if said else 0)


def test_anomaly_detection_is_said_to_read_a_value_for_each_gradient():
    rule = find_rule("debug-tool-on")
    facts = read_in_backward(91)
    for tool, reads_said in ((ANOMALY, True), ("tracemalloc", False)):
        outcome = rule.check(given(**facts, python_tools=[tool], framework="torch_xla"))
        units = [(each.text, each.value) for each in outcome.evidence]
        assert outcome.title.endswith(": 91 reads per step") is reads_said
        assert (("values that autograd's thread reads", 91.0) in units) is reads_said
        assert any("does again" in text and value > 0 for text, value in units) is reads_said


def test_a_read_that_runs_a_graph_of_its_own_is_to_come_after_the_cut():
    rule = find_rule("device-to-host-sync")
    after = "read it after `torch_xla.sync()`"
    for situation, early in ((read_again(20.0), True), (reads(1.0, 0.5, 50.0), False)):
        outcome = rule.check(given(**situation, framework="torch_xla"))
        assert outcome.status == "failed"
        assert (after in rule.page.remedy("torch_xla").text_for(outcome.cases)) is early


@pytest.mark.parametrize(
    ("kinds", "new_object", "data"),
    [
        (("again", "again"), True, False),
        (("graph", "graph"), False, True),
        (("again", "graph"), True, True),
        (("unknown", "again"), True, False),
        (("unknown", "unknown"), True, True),
    ],
)
def test_the_same_program_made_again_is_no_decision_of_the_program(kinds, new_object, data):
    rule = find_rule("recompiles-other")
    outcome = rule.check(given(**recompiled(0.9, *kinds), framework="jax", explains_misses=False))
    text = rule.page.remedy("jax").text_for(outcome.cases)
    assert ("Make each jitted function once" in text, "Let the decision be data" in text) == (
        new_object,
        data,
    )


@pytest.mark.parametrize(
    ("detail", "cases"),
    [
        (f"{NEW_FUNCTION}: f", {"function"}),
        (f"{UNKNOWN_FUNCTION}: it is", {"function"}),
        (f"{NEW_STATIC}: <Model object>", {"static"}),
        (f"{WEAK_TYPE}: lr was a Python number", {"number"}),
        (SAME_PROGRAM, {"function", "static", "number"}),
    ],
)
@pytest.mark.parametrize("explains", [True, False])
def test_what_jax_says_of_a_compile_decides_the_advice(detail, cases, explains):
    rule = find_rule("recompiles-other")
    run = recompiled(0.9, "again", "again")
    rows = [replace(row, cause=Cause("again", detail)) for row in run["report"]["compiles"]]
    run["report"] = {"compiles": rows}
    outcome = rule.check(given(**run, framework="jax", explains_misses=explains))
    asks = detail == SAME_PROGRAM and not explains
    assert outcome.cases == cases | ({"ask"} if asks else set())
    assert ("JAX_EXPLAIN_CACHE_MISSES" in rule.page.remedy("jax").text_for(outcome.cases)) == asks


@pytest.mark.parametrize(
    ("program", "flow"), [("jit_cond(225)", True), ("jit_scan(7)", True), ("jit_condition(7)", False)]
)
def test_a_branch_or_a_loop_outside_of_a_jitted_function_is_put_into_one(program, flow):
    """`optax.MultiSteps` calls `jax.lax.cond`: "Make each jitted function once" was the advice."""
    rule = find_rule("recompiles-other")
    run = recompiled(0.9, "again", "again")
    run["report"] = {"compiles": [replace(row, program=program) for row in run["report"]["compiles"]]}
    outcome = rule.check(given(**run, framework="jax", explains_misses=False))
    text = rule.page.remedy("jax").text_for(outcome.cases)
    assert ("around the function that calls `jax.lax.cond`" in text) is flow
    assert ("Make each jitted function once" in text) is not flow


@pytest.mark.parametrize(
    ("sizes", "grows"),
    [
        ([11, 12, 13, 14, 15], True),
        ([8, 16, 24, 32, 40], True),
        ([11, 12, 13, 14], False),  # three compiles
        ([11, 12, 13, 13, 14, 15], False),  # a step without one
        ([11, 19, 12, 30, 26], False),
        ([15, 14, 13, 12, 11], False),
    ],
)
@pytest.mark.parametrize("framework", ["torch_xla", "jax"])
@pytest.mark.parametrize(
    ("shape", "case", "said"),
    [
        ("s64[1,{}]", "grows", "as in generating text"),
        ("s64[{},8]", "kept", "(`{}.stack(losses)`)"),
        ("f32[{}]", "kept", "(`{}.stack(losses)`)"),
    ],
)
def test_a_size_that_grows_with_each_step_is_allocated_once(sizes, grows, framework, shape, case, said):
    """A text that is generated, and losses that are joined in each step; else lengths of any size."""

    rule = find_rule("recompiles-shape")
    rows = [
        replace(
            compiled("shape", step=step),
            cause=Cause(
                "shape",
                f"2 inputs changed: {shape.format(was)} became {shape.format(now)}, f32[3] became f32[9]",
            ),
        )
        for step, (was, now) in enumerate(pairwise(sizes))
        if was != now
    ]
    given_ = given(**{**recompiled(0.9), "report": {"compiles": rows}}, framework=framework)
    outcome = rule.check(given_)
    assert outcome.cases == ({case, "batch"} if grows else {"batch"})
    text = rule.page.remedy(framework).text_for(outcome.cases)
    assert ("llocate the whole length once" in text) is grows
    assert (said.format("jnp" if framework == "jax" else "torch") in text) is grows


@pytest.mark.parametrize(("of_weights", "weights"), [(2, True), (1, False)])
@pytest.mark.parametrize("framework", ["torch_xla", "jax", "torch_tpu"])
def test_a_model_of_another_size_is_not_advised_to_pad_its_batches(of_weights, weights, framework):
    rule = find_rule("recompiles-shape")
    detail = "2 inputs changed: f32[8,4] became f32[9,4], f32[1,8] became f32[1,9]"
    rows = [
        replace(
            compiled("shape", step=row), cause=Cause("shape", detail + (WEIGHTS if row < of_weights else ""))
        )
        for row in range(3)
    ]
    outcome = rule.check(given(**{**recompiled(0.9), "report": {"compiles": rows}}, framework=framework))
    text = rule.page.remedy(framework).text_for(outcome.cases)
    assert ("It is the model that has other sizes here" in text) is weights
    assert ("Give all batches one shape" in text) is not weights
    what = "the model's weights" if weights else "inputs"
    assert outcome.title.endswith(f"; {what} changed (f32[8,4] became f32[9,4], f32[1,8] became f32[1,9])")


@pytest.mark.parametrize(
    ("detail", "said"),
    [
        ("an input changed: x f32[8] became f32[9]", "x f32[8] became f32[9]"),
        (
            "3 inputs changed: x f32[8] became f32[9], y s32[8] became s32[9], f32[] became f32[1]",
            "x f32[8] became f32[9], y s32[8] became s32[9], f32[] became f32[1]",
        ),
        (
            "6 inputs changed: f32[8] became f32[9] (2 times), s32[8] became s32[9], p[8] became p[9] and 2 more",
            "f32[8] became f32[9] (2 times), s32[8] became s32[9], p[8] became p[9] and 2 others",
        ),
        (
            "4 arguments changed: a f32[8] became f32[9] (3 times) and 1 more",
            "a f32[8] became f32[9] (3 times) and 1 other",
        ),
    ],
)
def test_all_inputs_that_changed_are_named(detail, said):
    """Of a batch with a mask and labels only the first was named."""
    rows = [replace(compiled("shape"), cause=Cause("shape", detail))]
    situation = given(**{**recompiled(0.9), "report": {"compiles": rows}}, framework="jax")
    assert find_rule("recompiles-shape").check(situation).title.endswith(f"; inputs changed ({said})")


def test_ops_beside_a_compiled_model_have_advice_of_their_own():
    """A compiled model whose loss and metrics ran op by op was to be compiled."""
    beside, alone = (
        run_rules(given(**dispatched(compiled_regions=regions)), [find_rule("eager-dispatch")])[0]
        for regions in (1.0, 0.0)
    )
    assert beside.title.startswith(
        "Ops run one by one beside what torch.compile made: 20 programs for 40 ops"
    )
    assert "with the model or in one function" in beside.fix.text
    assert "Compile the model" not in beside.fix.text and "Compile the model" in alone.fix.text


# Of 10 ms in calls, those of `backward()`: below a fifth, from there on, and from a half on.
@pytest.mark.parametrize(
    ("ms", "micro_batches", "metrics"),
    [(1.9, False, True), (2.1, True, True), (4.9, True, True), (5.1, True, False)],
)
def test_the_advice_on_ops_fits_the_line_that_calls_them(ms, micro_batches, metrics):
    """Of four micro-batches "the loss and the metrics" were to be moved, beside the line of `backward()`."""
    rows = [
        HostStackRow("dispatch", [f"main ({source})"], call, source, call, taken, 0.0)
        for source, call, taken in (
            ("/u/train.py:69", "(loss / 4).backward()", ms),
            ("/u/train.py:71", "metric.update(x)", 10 - ms),
        )
    ]
    facts = {**dispatched(compiled_regions=1.0), "stacks_if_sampled": rows}
    (found,) = run_rules(given(**facts), [find_rule("eager-dispatch")])
    assert ("micro-batches" in found.fix.text, "the metrics" in found.fix.text) == (micro_batches, metrics)


@pytest.mark.parametrize(
    ("called", "value", "text"),
    [
        ((1, 1), 1, "different functions of torch.compile called"),
        ((1, 3), 3, "different functions of torch.compile called, 1 in some steps"),
    ],
)
def test_functions_of_torch_compile_are_a_whole_number(called, value, text):
    """The last window of 18 held the end of a step only: "0.944 per step" was said."""
    facts = dispatched(compiled_regions=17 / 18, regions_called=called)
    (found,) = run_rules(given(**facts), [find_rule("eager-dispatch")])
    said = next(each for each in found.evidence if each.text.startswith("different functions"))
    assert (said.value, said.text, said.unit) == (value, text, "per step that calls any")


@pytest.mark.parametrize(
    ("frame", "in_read", "said"),
    [
        ("__bool__ (train.py:9)", True, True),
        ("item (train.py:9)", True, False),
        ("train (train.py:9)", False, False),
    ],
)
def test_a_condition_that_compiles_has_advice_on_loops_that_end_by_a_value(frame, in_read, said):
    facts = recompiled(0.5, "graph")
    rows = [replace(row, frames=[frame], in_read=in_read) for row in facts["report"]["compiles"]]
    rule = find_rule("recompiles-other")
    found = outcome_of(rule, given(**{**facts, "report": {"compiles": rows}}))
    text = rule.page.remedy("torch_xla").text_for(found.cases)
    assert ("ends a Python loop" in text) is said
    assert "Let the decision be data" in text


@pytest.mark.parametrize("framework", ["torch_xla", "torch_tpu", "jax"])
@pytest.mark.parametrize(
    ("part", "call", "in_steps", "back"),
    [
        ("host_to_device", "device_get", 1.0, True),
        ("host_to_device", "cpu", 1.0, True),
        ("host_to_device", "cpu", READS_IN_STEPS_SHARE - 0.1, False),
        ("host_to_device", "item", 1.0, False),
        ("input_wait", "cpu", 1.0, False),
    ],
)
def test_what_comes_from_the_device_and_goes_back_may_stay_there(part, call, in_steps, back, framework):
    """Weights that NumPy constrained in each step were to be "made ahead in threads or processes"."""
    rule = find_rule("input-starved")
    situation = reads(1.0, 0.5, 50.0, call)
    (row,) = situation["report"]["host_reads"]
    rows = [replace(row, occurrences=round(in_steps * len(situation["steps"])))]
    facts = {"steps": steps(**{part: 60.0}), "copied_again": 0.0, "report": {"host_reads": rows}}
    outcome = rule.check(given(**facts, framework=framework))
    assert outcome.status == "failed"
    text = rule.page.remedy(framework).text_for(outcome.cases)
    assert ("goes back to the device" in text) is back


MORE, WITH_OPS = "it takes 43 inputs, the graph before it 33", "; the ops changed: 9 more add"


@pytest.mark.parametrize(
    ("rows", "grows"),
    [
        ([(10, 104, MORE + WITH_OPS), (20, 104, MORE)], True),
        # Each with other ops: Python may decide what is computed.
        ([(10, 104, MORE + WITH_OPS), (20, 104, MORE + WITH_OPS)], False),
        ([(10, 104, MORE), (10, 104, MORE)], False),
        ([(10, 104, MORE), (20, 105, MORE)], False),
        ([(10, 104, "the ops changed: 1 more add"), (20, 104, "the ops changed: 1 more add")], False),
    ],
)
def test_a_list_that_grows_has_its_own_advice_alone(rows, grows):
    """An exact AUROC kept all predictions: its advice was the last sentence behind seven that did not fit."""
    rule = find_rule("recompiles-other")
    compiles = [
        replace(row, cause=replace(row.cause, source_line=line, detail=detail))
        for step, line, detail in rows
        for row in (compiled("graph", 400.0, step),)
    ]
    found = rule.check(
        given(**{**recompiled(0.9, "graph"), "report": {"compiles": compiles}}, framework="torch_xla")
    )
    text = rule.page.remedy("torch_xla").text_for(found.cases)
    assert ("Let the decision be data" in text) is not grows
    assert text.startswith("Where a list keeps a tensor of each step") or not grows
