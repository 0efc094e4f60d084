"""Reports made by hand, so that what renderers show does not hang on the analysis."""

import dataclasses

import numpy as np

from tpuprof.report.memory import Memory
from tpuprof.report.schema import (
    AnnotationRow,
    Cause,
    CompileRow,
    Compute,
    Evidence,
    FallbackRow,
    Finding,
    Fix,
    HostReadRow,
    OpRow,
    Part,
    Report,
    Savings,
    StepRow,
    StepSummary,
    TransferRow,
    Verdict,
)
from tpuprof.report.span_note import SpanNote
from tpuprof.report.triage import DecisionRow, NextMeasurement

HOSTILE = "</pre></script><img src=x onerror=alert(1)>`|[x](http://evil.example)@octocat #1\n$x$\u202e\x00"


def steps(walls, parts=None, compiles=()):
    """Steps of those wall times (ms); `parts` are shares of it, `compiles` ms of compiling by step."""
    parts = parts or {"compute": 0.7, "tracing": 0.3}
    rows, start = [], 0
    for index, wall in enumerate(walls):
        compiling = dict(compiles).get(index, 0.0)
        split = {name: share * (wall - compiling) for name, share in parts.items()}
        if compiling:
            split["compile"] = compiling
        rows.append(StepRow(index, "host-a", start, wall, split, 0.0, max(split, key=split.get)))
        start += round(wall * 1e6)
    return rows


def finding(rule="recompilation", status="failed", severity=0.31, **more):
    values = {
        "category": "compile",
        "title": "Input shapes change, so graphs are compiled again and again",
        "why": "A new shape is a new graph, and XLA compiles it while the device waits.",
        "savings": Savings(12.0, 18.5, "counterfactual"),
        "confidence": "high",
        "evidence": [
            Evidence("compiles inside steps", 3, "compiles", step=2, source="model.py:41"),
            Evidence("time compiling", 412.5, "ms", host="host-a", start_ns=1_500_000, duration_ms=412.5),
        ],
        "fix": Fix(
            "Pad batches to a few fixed lengths.",
            "x = batch",
            "x = pad(batch, 128)",
            "docs/rules/recompilation.md",
        ),
    }
    return Finding(rule=rule, status=status, severity=severity, **{**values, **more})


def without_steps(made=None):
    """The report of a run in which no step was found: its one row is the whole capture."""
    made = made or report((4182.0,))
    note = "no step was found, and nothing repeats that could be one"
    whole = dataclasses.replace(
        made.steps,
        count=0,
        method="the whole capture",
        median_ms=None,
        p95_ms=None,
        note=note,
        whole_capture=True,
    )
    return dataclasses.replace(made, steps=whole)


def report(walls=(10.0, 11.0, 10.5, 10.2), parts=None, compiles=(), findings=(), name="dot.1", **more):
    rows = steps(walls, parts, compiles)
    total = sum(walls) or 1.0
    names = dict.fromkeys(part for row in rows for part in row.breakdown_ms)
    sums = {part: sum(row.breakdown_ms.get(part, 0.0) for row in rows) for part in names}
    values = {
        "source": {"files": ["path-1/host-a.xplane.pb"], "sizes": [123456]},
        "generator": {"name": "tpuprof", "version": "9.9.9"},
        "environment": {
            "framework": "torch_xla",
            "device_type": "TPU v5p",
            "device_count": 4,
            "host_count": 1,
            "peak_flops_per_s": 4.59e14,
            "peak_hbm_bytes_per_s": 2.765e12,
            "torch_xla": "2.9.0",
            "libtpu": "0.0.21",
            "run": {
                "versions": {"torch": "2.9.0", "torch_xla": "2.9.0", "libtpu": "0.0.21"},
                "python": "3.11.7",
                "command_line": ["path-1/train.py", "--batch", "16"],
                "environment": {"PJRT_DEVICE": "TPU", "XLA_FLAGS": "--xla_a=b"},
                "capture": {
                    "steps_captured": len(rows),
                    "steps_before": 4,
                    "backend": "InProcess",
                    "overhead_seconds": {"capturing": 0.002},
                },
            },
        },
        "verdict": Verdict(
            "tracing", 0.3, "Tracing-bound: the device idles for 30 % of each step while Python traces."
        ),
        "steps": StepSummary(
            len(rows),
            "step markers",
            "high",
            float(np.median(walls)) if walls else None,
            float(np.percentile(walls, 95)) if walls else None,
            "" if walls else "no step marker was found",
            rows,
        ),
        "breakdown": {part: Part(ms / max(len(rows), 1), ms / total) for part, ms in sums.items()}
        if rows
        else {},
        "tracing_hidden_ms_per_step": 0.4 if rows else None,
        "compiles": [
            CompileRow(
                index,
                "host-a",
                f"hash{index}",
                f"graph({index})",
                0,
                ms,
                Cause("shape", "an input changed: s64[4,33] became s64[4,41]", "path-1/model.py", 41),
                ["train (path-1/model.py:41)"],
            )
            for index, ms in compiles
        ],
        "ops": [
            OpRow(
                name,
                "convolution",
                "compute",
                "graph(1)",
                len(rows) or 1,
                30.0,
                28.0,
                10**9,
                10**6,
                "path-1/model.py:12",
                "layers.0",
            ),
            OpRow(
                "all-reduce.3",
                "all-reduce",
                "collective",
                "graph(1)",
                len(rows) or 1,
                5.0,
                5.0,
                None,
                None,
                "",
                "",
            ),
        ],
        "host_reads": [HostReadRow("item", "path-1/train.py:77", 4, 0.9)],
        "collectives": [
            TransferRow(
                "all-reduce.3", "all-reduce", 10**7, 4, 81.5, None, 1.2, 0.4, "", "path-1/model.py:9", ""
            )
        ],
        "offload": [TransferRow("copy-start.1", "to_host", 10**8, 4, None, None, 0.2, None, "p7", "", "")],
        "annotations": [AnnotationRow("forward", "annotation", 4, 12.0, 20.0)],
        "sources": [],
        "warnings": ["host-a: 3 events were dropped"],
        "findings": list(findings),
        "fallbacks": [FallbackRow("aten::nonzero", 2.0, "path-1/train.py:80")],
        "compute": Compute(0.42, "", 4.59e14, 2.765e12, 1e9, 7.0, 0.0, 0.0, 0.0),
        "memory": Memory(11 * 2**30, 16 * 2**30, "buffer assignment", ""),
        "redactions": {"path": 4},
    }
    return Report(**{**values, **more})


def with_findings():
    """One report with everything a renderer shows."""
    return report(
        walls=(10.0, 11.0, 440.0, 10.2, 10.4, 10.1),
        compiles=((2, 412.5),),
        why=[
            DecisionRow(
                "the largest part",
                0.3,
                0.1,
                "share of the step",
                True,
                "it is named",
                "below 10 % (16.4 ms less)",
            )
        ],
        measure_next=[
            NextMeasurement(
                "No memory profile.", "tpuprof capture -- python train.py", "On a TPU.", ["hbm-headroom"]
            )
        ],
        findings=[
            finding(),
            finding(
                "device-to-host-sync",
                severity=0.08,
                savings=None,
                reason="no counterfactual",
                title="A value is read back each step",
            ),
            finding("input-starved", "passed", 0.0),
            finding("exposed-collectives", "not_applicable", 0.0, reason="one device"),
            finding("hbm-headroom", "unavailable", 0.0, reason="no memory profile"),
        ],
    )


def hostile():
    """The same with a name in every text that tries to break out."""
    return report(
        name=HOSTILE,
        findings=[
            finding(
                HOSTILE,
                title=HOSTILE,
                why=HOSTILE,
                evidence=[Evidence(HOSTILE, 1.0, HOSTILE, HOSTILE, source=HOSTILE)],
                fix=Fix(HOSTILE, HOSTILE, HOSTILE, HOSTILE),
            )
        ],
        parts={"compute": 0.6, f"user:{HOSTILE}": 0.4},
        verdict=Verdict(HOSTILE, 0.3, HOSTILE),
        why=[DecisionRow(HOSTILE, None, None, HOSTILE, True, HOSTILE, HOSTILE)],
        measure_next=[NextMeasurement(HOSTILE, HOSTILE, HOSTILE, [HOSTILE])],
        span_notes=[SpanNote(HOSTILE, HOSTILE, HOSTILE, 1_000_000, 2_000_000, HOSTILE, HOSTILE)],
        warnings=[HOSTILE],
        fallbacks=[FallbackRow(HOSTILE, None, HOSTILE)],
        host_reads=[HostReadRow(HOSTILE, HOSTILE, 1, 1.0)],
        environment={
            **report().environment,
            "device_type": HOSTILE,
            "run": {"environment": {HOSTILE: HOSTILE}, "command_line": [HOSTILE]},
        },
        source={"files": [HOSTILE], "sizes": [1]},
    )
