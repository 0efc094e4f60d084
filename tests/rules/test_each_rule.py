"""What each rule says: failed, passed, not applicable, unavailable, on both sides of its thresholds."""

import pytest

from tests.rules.given import (
    compiled,
    given,
    loop,
    matmul,
    memory,
    op,
    read,
    record,
    step,
    steps,
    summary,
    transfer,
)
from tpuprof.rules import thresholds
from tpuprof.rules.registry import all_rules, find_rule
from tpuprof.rules.runner import outcome_of

TENTH = thresholds.FAILS_FROM_SHARE
BELOW, ABOVE = TENTH - 0.01, TENTH + 0.01
NOTHING = {}


def traced(share, **more):
    return {
        "framework": "torch_xla", "bound": "tracing", "tracing_hidden_ms": 1.0,
        "steps": steps(tracing=100 * share), "step_compiles": [], **more,
    }  # fmt: skip


def recompiled(share, *kinds):
    return {
        "report": {"compiles": [compiled(kind) for kind in kinds]},
        "steps": steps(),
        "compile_share": share,
    }


def scan(traces, share, ms=None):
    marks = {"scan_retrace": traces}
    if ms is not None:
        marks["scan_trace"] = 1.0
    return {**traced(share), "mark_count": marks, "mark_ms": {"scan_trace": ms}}


def info(**more):
    return {
        "environment": {},
        "versions": {"torch_xla": "2.9.0"},
        "features_loaded": [],
        "spmd": {"on": False},
        **more,
    }


def started(seconds, run_info=None, **counters):
    records = [record(captured=False, compiles=2, seconds=seconds, **counters), record()]
    return {"run_info": run_info or info(), "records": records, "steps": steps()}


def debug(with_ms, without_ms, by_user=True, **variables):
    records = [record(captured=False, wall_ms=with_ms)] * 3 + [record(wall_ms=without_ms)] * 3
    run = info(environment=variables, capture={"ir_debug_by_user": by_user})
    return {"run_info": run, "records": records}


def cut(graphs, ms):
    return {
        "framework": "torch_xla", "records": [record(CachedCompile=graphs)], "mark_ms": {"graph_cut": ms},
        "steps": steps(),
    }  # fmt: skip


def reads(in_steps, idle, blocked, call="item"):
    return {
        "steps": steps(), "reads_in_steps_share": in_steps, "busy_share": 1 - idle,
        "report": {"host_reads": [read(call, blocked)]},
    }  # fmt: skip


def collectives(kind, share, fsdp=False):
    run = info(features_loaded=["fsdpv2"] if fsdp else [], spmd={"on": True})
    return {"run_info": run, "collectives": [transfer(kind)], "collective_share": share}


def offloaded(share, exposed=10.0, hidden=1.0):
    return {"offload": [transfer("host_to_device", exposed, hidden)], "offload_share": share}


def tpu(**more):
    return {"is_tpu": True, "busy_share": 1.0, "ops": [op(), op("fusion.2", 90.0)], **more}


def attention(ms):
    return tpu(ops=[op("fusion.1", 100 - ms), op("fusion.2", ms, annotation="attention/softmax")], hosts=[])


def multiplied(matmuls):
    return tpu(ops=[op(ms=100.0)], matmuls=matmuls)


CPU = {"is_tpu": False}
GATHER = "all-gather"
OLD = info(versions={"torch_xla": "2.6.0"}, cxx11_abi=False)
NEW_ABI = info(versions={"torch_xla": "2.6.0"}, cxx11_abi=True)
CACHE = info(environment={"XLA_PERSISTENT_CACHE_PATH": "/c"})
SLOW = thresholds.SLOW_COMPILE_FROM_SECONDS
LAYERS = thresholds.UNROLLED_FROM_LAYERS
TORCH_COMPILE = thresholds.TORCH_COMPILE_FROM_SHARE
PADDED, WHOLE = (128, 102), (128, 103)
assert 1 - 102 / 128 > thresholds.PADDING_FROM_SHARE > 1 - 103 / 128

# By rule: (what is tested, the status that must come out, the signals). A rule that can never fail, or always has an
# answer, has no case of that kind; EXCEPTIONS says which and why.
CASES = {
    "tracing-bound": [
        ("enough", "failed", traced(ABOVE)),
        ("too little", "passed", traced(BELOW)),
        ("turns", "passed", traced(0.5, bound="sync")),
        ("jax", "not_applicable", {"framework": "jax"}),
        ("no steps", "unavailable", {"framework": "torch_xla"}),
    ],
    "scan-cache-off": [
        ("every step", "failed", scan(1.0, 0.5, ms=ABOVE * 100)),
        ("too short", "passed", scan(1.0, 0.5, ms=BELOW * 100)),
        ("hidden", "passed", scan(1.0, BELOW, ms=50.0)),
        ("rarely", "passed", scan(thresholds.SCAN_RETRACES_FROM - 0.1, 0.5, ms=50.0)),
        ("often", "failed", scan(thresholds.SCAN_RETRACES_FROM, 0.5, ms=50.0)),
        ("untimed", "failed", scan(1.0, 0.5)),
        ("no scan", "not_applicable", {"mark_count": {}}),
        ("no steps", "unavailable", NOTHING),
    ],
    "unrolled-layers": [
        ("many", "failed", traced(0.5, loops=[loop(LAYERS)])),
        ("few", "passed", traced(0.5, loops=[loop(LAYERS - 1)])),
        ("hidden", "passed", traced(BELOW, loops=[loop(LAYERS)])),
        ("only loops", "not_applicable", {"loops": [loop(8, "while")]}),
        ("no steps", "unavailable", NOTHING),
    ],
    "pre-cxx11-abi": [
        ("old", "failed", traced(ABOVE, run_info=OLD)),
        ("old, hidden", "passed", traced(BELOW, run_info=OLD)),
        ("new abi", "passed", traced(ABOVE, run_info=NEW_ABI)),
        ("2.7", "not_applicable", traced(ABOVE, run_info=info(versions={"torch_xla": "2.7.0"}))),
        ("no run.json", "unavailable", NOTHING),
    ],
    "debug-flags-on": [
        ("slow", "failed", debug(100, 100 * (1 - ABOVE))),
        ("harmless", "passed", debug(100, 100 * (1 - BELOW))),
        ("by tpuprof alone", "passed", debug(200, 100, by_user=False)),
        ("another flag", "failed", debug(100, 100, by_user=False, PT_XLA_DEBUG="1")),
        ("off by 0", "passed", debug(100, 100, by_user=False, PT_XLA_DEBUG="0")),
        ("no run.json", "unavailable", NOTHING),
    ],
    "eager-graph-cuts": [
        ("many", "failed", cut(4, 20.0)),
        ("cheap", "passed", cut(4, 12.0)),
        ("dear", "failed", cut(4, 14.0)),
        ("one", "passed", cut(1, 50.0)),
        ("jax", "not_applicable", {"framework": "jax"}),
        ("no telemetry", "unavailable", {"framework": "torch_xla"}),
    ],
    "aten-fallback": [
        ("each step", "failed", {"records": [record(aten__histc=1)], "busy_share": 0.5}),
        ("one in two", "failed", {"records": [record(aten__histc=1), record()], "busy_share": 0.5}),
        ("one in three", "passed", {"records": [record(aten__histc=1), record(), record()], "busy_share": 0.5}),
        ("device busy", "passed", {"records": [record(aten__histc=1)], "busy_share": 1 - BELOW}),
        ("a read", "passed", {"records": [record(aten___local_scalar_dense=1)], "busy_share": 0.5}),
        ("no telemetry", "unavailable", NOTHING),
    ],
    "torch-compile-candidate": [
        ("worth a try", "passed", traced(TORCH_COMPILE + 0.01)),
        ("jax", "not_applicable", {"framework": "jax"}),
        ("no steps", "unavailable", {"framework": "torch_xla"}),
    ],
    "while-loop-candidate": [
        ("many", "passed", {"loops": [loop(LAYERS)]}),
        ("few", "not_applicable", {"loops": [loop(LAYERS - 1)]}),
        ("not told", "unavailable", NOTHING),
    ],
    "recompiles-shape": [
        ("enough", "failed", recompiled(ABOVE, "shape", "dtype")),
        ("too little", "passed", recompiled(BELOW, "shape")),
        ("half of it", "passed", recompiled(0.15, "shape", "constant")),
        ("another cause", "passed", recompiled(0.9, "constant")),
        ("none", "passed", recompiled(0.0)),
        ("no steps", "unavailable", {"report": {"compiles": [compiled("shape")]}}),
    ],
    "recompiles-constant": [
        ("enough", "failed", recompiled(ABOVE, "constant")),
        ("the last not told", "failed", recompiled(ABOVE, "constant", "constant", "unknown")),
        ("too little", "passed", recompiled(BELOW, "constant")),
        ("no steps", "unavailable", {"report": {"compiles": [compiled("constant")]}}),
    ],
    "recompiles-other": [
        ("enough", "failed", recompiled(ABOVE, "graph")),
        ("not told at all", "failed", recompiled(ABOVE, "unknown")),
        ("too little", "passed", recompiled(BELOW, "graph")),
        ("no steps", "unavailable", {"report": {"compiles": [compiled("graph")]}}),
    ],
    "slow-compile": [
        ("slow", "failed", started(SLOW)),
        ("quick", "passed", started(SLOW - 0.1)),
        ("no telemetry", "unavailable", NOTHING),
    ],
    "persistent-cache-off": [
        ("slow", "failed", started(SLOW)),
        ("quick", "passed", started(SLOW - 0.1)),
        ("by variable", "not_applicable", started(SLOW, CACHE)),
        ("in code", "not_applicable", started(SLOW, PersistentCacheMiss=1)),
        ("no telemetry", "unavailable", NOTHING),
    ],
    "persistent-cache-ineffective": [
        ("misses", "failed", started(SLOW, CACHE, PersistentCacheHit=1, PersistentCacheMiss=2)),
        ("hits", "passed", started(SLOW, CACHE, PersistentCacheHit=1, PersistentCacheMiss=1)),
        ("cannot load", "failed", started(SLOW, CACHE, PersistentCacheHit=2, PersistentCacheDeserializeFailure=2)),
        ("quick", "passed", started(SLOW - 0.1, CACHE, PersistentCacheMiss=2)),
        ("no cache", "not_applicable", started(SLOW)),
        ("no telemetry", "unavailable", NOTHING),
    ],
    "auto-sharding-cost": [
        ("slow", "failed", started(SLOW, CompileWithAutoSharding=1)),
        ("quick", "passed", started(SLOW - 0.1, CompileWithAutoSharding=1)),
        ("by hand", "not_applicable", started(SLOW)),
        ("no telemetry", "unavailable", NOTHING),
    ],
    "device-to-host-sync": [
        ("turns", "failed", reads(1.0, ABOVE, 50.0)),
        ("device has work", "passed", reads(1.0, BELOW, 50.0)),
        ("hardly blocks", "passed", reads(1.0, 0.5, 100 * BELOW)),
        ("half of the steps", "failed", reads(thresholds.READS_IN_STEPS_SHARE, 0.5, 50.0)),
        ("fewer", "passed", reads(thresholds.READS_IN_STEPS_SHARE - 0.01, 0.5, 50.0)),
        ("fallback", "passed", {**reads(1.0, 0.5, 50.0, "TransferFromDevice"), "records": [record(aten__histc=1)]}),
        ("no steps", "unavailable", NOTHING),
    ],
    "input-starved": [
        ("waits", "failed", {"steps": steps(input_wait=100 * ABOVE)}),
        ("hardly", "passed", {"steps": steps(input_wait=100 * BELOW)}),
        ("copies", "failed", {"steps": steps(host_to_device=60.0)}),
        ("fallback", "passed", {"steps": steps(host_to_device=60.0), "records": [record(aten__histc=1)]}),
        ("no steps", "unavailable", NOTHING),
    ],
    "exposed-collectives": [
        ("waits", "failed", collectives("all-reduce", ABOVE)),
        ("hardly", "passed", collectives("all-reduce", BELOW)),
        ("gathers only", "not_applicable", collectives(GATHER, 0.5, fsdp=True)),
        ("none", "not_applicable", {"collectives": []}),
        ("not told", "unavailable", NOTHING),
    ],
    "exposed-parameter-gather": [
        ("waits", "failed", collectives(GATHER, ABOVE, fsdp=True)),
        ("hardly", "passed", collectives(GATHER, BELOW, fsdp=True)),
        ("not fsdp", "not_applicable", collectives(GATHER, 0.5)),
        ("not told", "unavailable", {"run_info": info(features_loaded=["fsdpv2"], spmd={"on": True})}),
    ],
    "exposed-host-offload": [
        ("waits", "failed", offloaded(ABOVE)),
        ("hardly", "passed", offloaded(BELOW)),
        ("none", "not_applicable", {"offload": []}),
        ("not told", "unavailable", NOTHING),
    ],
    "offload-not-effective": [
        ("exposed", "failed", offloaded(0.5, exposed=5.0, hidden=5.0)),
        ("hidden", "passed", offloaded(0.5, exposed=4.9, hidden=5.1)),
        ("too little", "passed", offloaded(BELOW, exposed=9.0)),
        ("none", "not_applicable", {"offload": []}),
        ("no async line", "unavailable", offloaded(0.5, hidden=None)),
    ],
    "offload-unneeded": [
        ("room", "failed", {**offloaded(ABOVE), "memory": memory(699)}),
        ("needed", "passed", {**offloaded(ABOVE), "memory": memory(700)}),
        ("cheap", "passed", {**offloaded(BELOW), "memory": memory(100)}),
        ("none", "not_applicable", {"offload": []}),
        ("memory not told", "unavailable", offloaded(ABOVE)),
    ],
    "hbm-pressure": [
        ("full", "failed", {"memory": memory(900)}),
        ("room", "passed", {"memory": memory(899)}),
        ("not told", "unavailable", NOTHING),
        ("capacity not told", "unavailable", {"memory": memory(900, None)}),
    ],
    "unfused-attention": [
        ("much", "failed", attention(100 * ABOVE)),
        ("little", "passed", attention(100 * BELOW)),
        ("none", "not_applicable", tpu(hosts=[])),
        ("cpu", "not_applicable", CPU),
        ("no device", "unavailable", NOTHING),
    ],
    "float32-matmul": [
        ("much", "failed", multiplied([matmul(ms=100 * ABOVE)])),
        ("little", "passed", multiplied([matmul(ms=100 * BELOW)])),
        ("bfloat16", "passed", multiplied([matmul("bf16", ms=90.0)])),
        ("cpu", "not_applicable", CPU),
        ("no lines", "unavailable", tpu()),
    ],
    "padded-dimensions": [
        ("much", "failed", multiplied([matmul(dims=PADDED, ms=100 * ABOVE)])),
        ("little time", "passed", multiplied([matmul(dims=PADDED, ms=100 * BELOW)])),
        ("little padding", "passed", multiplied([matmul(dims=WHOLE, ms=90.0)])),
        ("cpu", "not_applicable", CPU),
        ("no lines", "unavailable", tpu()),
    ],
    "layout-copies": [
        ("much", "failed", tpu(ops=[op("copy.1", 100 * ABOVE), op(ms=100 * (1 - ABOVE))])),
        ("little", "passed", tpu(ops=[op("copy.1", 100 * BELOW), op(ms=100 * (1 - BELOW))])),
        ("offload is no layout", "passed", tpu(ops=[op("copy-done.1", 90.0, kind="offload"), op()])),
        ("cpu", "not_applicable", CPU),
        ("no device", "unavailable", NOTHING),
    ],
    "low-mxu-utilization": [
        ("low", "failed", tpu(mxu_share=0.29, offload_share=0.0, collective_share=0.0)),
        ("fine", "passed", tpu(mxu_share=0.30, offload_share=0.0, collective_share=0.0)),
        ("waits", "passed", tpu(mxu_share=0.1, offload_share=0.51, collective_share=0.0)),
        ("cpu", "not_applicable", CPU),
        ("no peak", "unavailable", tpu()),
    ],
    "memory-bandwidth-bound": [
        ("bound", "failed", tpu(bandwidth_share=0.70)),
        ("not", "passed", tpu(bandwidth_share=0.69)),
        ("cpu", "not_applicable", CPU),
        ("no peak", "unavailable", tpu()),
    ],
    "straggler-host": [
        ("slow", "failed", {"steps": [step(100), step(106, host="host1")]}),
        ("even", "passed", {"steps": [step(100), step(104, host="host1")]}),
        ("waits", "passed", {"steps": [step(100), step(120, host="host1", collective_exposed=20.0)]}),
        ("one host", "not_applicable", {"steps": steps()}),
        ("no steps", "unavailable", NOTHING),
    ],
    "uneven-steps": [
        ("one in five", "failed", {"steps": [*steps(4), step(160, 4, tracing=60.0)]}),
        ("too little", "passed", {"steps": [*steps(9), step(200, 9, tracing=100.0)]}),
        ("within the usual", "passed", {"steps": [*steps(4), step(125, 4)]}),
        ("a compile", "passed", {"steps": [*steps(4), step(1000, 4, compile=900.0)]}),
        ("waits for the device", "passed", {"steps": [*steps(4), step(1000, 4, compute=900.0)]}),
        ("few steps", "not_applicable", {"steps": steps(thresholds.UNEVEN_MIN_STEPS - 1)}),
        ("no steps", "unavailable", NOTHING),
    ],
    "no-step-markers": [
        ("low", "failed", {"report": {"steps": summary("low", 4)}}),
        ("none", "failed", {"report": {"steps": summary("low", 0, "none")}}),
        ("inferred", "passed", {"report": {"steps": summary("medium")}}),
    ],
    "truncated-trace": [
        ("something", "failed", {"missing": ["3 of 8 steps"]}),
        ("nothing", "passed", {"missing": []}),
        ("not told", "unavailable", NOTHING),
    ],
    "device-bound": [
        ("busy", "passed", tpu(busy_share=0.9, offload_share=0.0, collective_share=0.0)),
        ("idles", "not_applicable", tpu(busy_share=0.89, offload_share=0.0, collective_share=0.0)),
        ("waits", "not_applicable", tpu(busy_share=0.95, offload_share=0.1, collective_share=0.0)),
        ("no steps", "unavailable", NOTHING),
    ],
}  # fmt: skip

ADVICE = {"torch-compile-candidate", "while-loop-candidate", "device-bound"}
EXCEPTIONS = {
    "failed": ADVICE,
    # Rules about every run there is.
    "not_applicable": {
        "debug-flags-on",
        "aten-fallback",
        "recompiles-shape",
        "recompiles-constant",
        "recompiles-other",
        "slow-compile",
        "device-to-host-sync",
        "input-starved",
        "hbm-pressure",
        "no-step-markers",
        "truncated-trace",
    },
    # How steps were found is always known.
    "unavailable": {"no-step-markers"},
}


@pytest.mark.parametrize(
    ("rule_id", "status", "signals"),
    [
        pytest.param(rule_id, status, signals, id=f"{rule_id}: {name}")
        for rule_id, cases in CASES.items()
        for name, status, signals in cases
    ],
)
def test_what_it_says(rule_id, status, signals):
    outcome = outcome_of(find_rule(rule_id), given(**signals))
    assert (outcome.status, outcome.reason if outcome.status == "error" else "") == (status, "")
    if status in ("not_applicable", "unavailable"):
        assert outcome.reason
    if status == "failed":
        assert outcome.evidence
        assert 0 <= outcome.share <= 1
        assert outcome.price is not None or outcome.reason


@pytest.mark.parametrize("status", ["failed", "passed", "not_applicable", "unavailable"])
def test_every_rule_is_tested_for_every_status(status):
    tested = {rule_id for rule_id, cases in CASES.items() if any(case[1] == status for case in cases)}
    assert {rule.id for rule in all_rules()} - tested == EXCEPTIONS.get(status, set())
