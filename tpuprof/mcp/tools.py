"""The ten tools: what each takes, and the short answer it gives. Nothing here knows the protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuprof.errors import Code, TpuprofError
from tpuprof.mcp.answers import answer, exact
from tpuprof.rules.base import STATUSES
from tpuprof.tables.ids import evidence_id

if TYPE_CHECKING:
    from tpuprof.mcp.roots import Roots
    from tpuprof.report.schema import Evidence, Finding, Report

# A query's time, since an agent waits for it (s).
QUERY_SECONDS = 20.0
# Rows that a tool gives unless more are asked for (rows).
ROWS = 10
# What `ops` takes as what to sum by.
GROUPED_BY = ("op", "category", "program", "annotation", "source")
_ROOM_FOR_PAGE = 3_500


class Tools:
    """Tools over the runs below some paths. Each answer is a JSON text of at most 3,900 characters."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots

    def verdict(self, run: str = "") -> str:
        """What limits a run, in one sentence, with its steps and where their time goes.

        Without a run, the names of all runs: each is what other tools take as `run`. Start here.
        """
        names = self._roots.names()
        if not run and len(names) != 1:
            return answer("runs", runs=names)
        report = self._roots.open(run).report
        parts = sorted(report.breakdown.items(), key=lambda each: -each[1].share)
        return answer(
            "warnings",
            run=run or names[0],
            sentence=report.verdict.sentence,
            bound=report.verdict.bound,
            share=report.verdict.share,
            steps={
                name: getattr(report.steps, name)
                for name in ("count", "median_ms", "p95_ms", "method", "confidence")
            },
            ms_per_step={name: part.ms_per_step for name, part in parts if part.ms_per_step},
            failed=[_head(each) for each in self._roots.open(run).findings()],
            device=report.environment.get("device_type"),
            devices=report.environment.get("device_count"),
            hosts=report.environment.get("host_count"),
            predicted=report.predicted or None,
            warnings=report.warnings[:5],
        )

    def findings(self, run: str = "", status: str = "failed") -> str:
        """What rules found, most at stake first; status is failed, passed, not_applicable, unavailable, error or all.

        `evidence` gives the facts behind one of them.
        """
        _check_word("status", status, (*STATUSES, "all"))
        found = self._roots.open(run).findings("" if status == "all" else status)
        if status == "failed":
            return answer("findings", findings=[_finding(each) for each in found])
        rows = [{"rule": each.rule, "status": each.status, "reason": each.reason} for each in found]
        return answer("findings", findings=rows)

    def evidence(self, run: str = "", rule: str = "") -> str:
        """The facts that a finding rests on, with values, places and evidence ids, and how to fix it.

        `rule` is a rule's id, or an evidence id as `RULE#2`.
        """
        opened = self._roots.open(run)
        name, _, number = rule.partition("#")
        found = opened.finding(name)
        if found is None:
            rules = ", ".join(sorted(each.rule for each in opened.findings("")))
            raise _refused(f"the report has no finding of {name!r}", f"Rules are {rules}.")
        facts = opened.evidence(name)
        if number and rule not in facts:
            raise _refused(f"there is no evidence {rule!r}", f"{name} has {', '.join(facts) or 'none'}.")
        rows = [_fact(key, each) for key, each in facts.items() if not number or key == rule]
        fix = found.fix
        return answer(
            "evidence",
            **_finding(found),
            why=found.why,
            reason=found.reason,
            evidence=rows,
            fix=fix.text if fix else None,
            fix_before=fix.before if fix else None,
            fix_after=fix.after if fix else None,
        )

    def steps(self, run: str = "", number: int = -1, limit: int = ROWS) -> str:
        """The slowest steps with their parts in ms, or the step of one number on every host."""
        report = self._roots.open(run).report
        if report.steps.whole_capture:
            return answer("steps", count=0, median_ms=None, note=report.steps.note, steps=[])
        shown = [each for each in report.steps.shown if number < 0 or each.index == number]
        if number >= 0 and not shown:
            raise _refused(f"the report shows no step {number}", _steps_shown(report))
        rows = [
            {
                "step": each.index,
                "host": each.host,
                "wall_ms": each.wall_ms,
                "bound": each.bound,
                "parts_ms": dict(sorted(each.breakdown_ms.items(), key=lambda part: -part[1])[:8]),
            }
            for each in sorted(shown, key=lambda each: -each.wall_ms)[: max(limit, 1)]
        ]
        return answer("steps", count=report.steps.all_hosts, median_ms=report.steps.median_ms, steps=rows)

    def ops(self, run: str = "", by: str = "op", limit: int = ROWS) -> str:
        """Where the device's time goes: `by` is op, category, program, annotation or source; most first."""
        _check_word("by", by, GROUPED_BY)
        report = self._roots.open(run).report
        if by == "op":
            rows = [_op(each) for each in report.ops[: max(limit, 1)]]
        elif by == "source":
            rows = [vars(each) for each in report.sources[: max(limit, 1)]]
        else:
            groups = [each for each in report.op_groups if each.by == by]
            rows = [vars(each) for each in sorted(groups, key=lambda each: -each.self_ms)[: max(limit, 1)]]
        return answer("ops", by=by, ops=rows)

    def compiles(self, run: str = "", limit: int = ROWS) -> str:
        """Every compile in the capture: step, time, cause and the line that led to it; the longest first."""
        report = self._roots.open(run).report
        rows = [
            {
                "step": each.step,
                "host": each.host,
                "ms": each.duration_ms,
                "program": each.program,
                "cause": each.cause.kind,
                "detail": each.cause.detail,
                "source": next(iter(each.cause.places), ""),
                "also": each.cause.also[:3],
                "frames": each.frames[:3],
                "novelty": each.novelty,
            }
            for each in sorted(report.compiles, key=lambda each: -each.duration_ms)[: max(limit, 1)]
        ]
        return answer(
            "compiles", count=len(report.compiles), returns=report.compile_history.returns, compiles=rows
        )

    def query(self, run: str = "", sql: str = "SHOW TABLES", limit: int = 50) -> str:
        """One SELECT (DuckDB) over the run's tables; times are integers of picoseconds (`_ps`), 1e9 to a millisecond.

        SHOW TABLES and DESCRIBE TABLE say what there is: steps, parts, ops, op_events, programs, host_events,
        host_reads, compiles, transfers, memory, counters, telemetry, findings, evidence, hosts. All join by host.
        """
        found = self._roots.open(run).query(sql, most=max(limit, 1), time_limit_s=QUERY_SECONDS)
        rows = [[exact(value) for value in row] for row in found.rows]
        return _exact_answer(found.columns, rows, found.cut)

    def diff(self, base: str, candidate: str) -> str:
        """What changed from one run to another beyond noise: step time, parts, findings new and fixed, compiles."""
        found = self._roots.open(base).compare(self._roots.open(candidate))
        plain = found.to_dict()
        rows = [
            {"part": each["name"], "ms": each["change"]["delta"]}
            for each in sorted(plain["parts"], key=lambda each: -abs(each["change"]["delta"]))[:8]
        ]
        return answer(
            "findings",
            outcome=str(plain["outcome"]),
            sentence=found.sentence,
            median_ms=[found.median.base, found.median.candidate] if found.median else None,
            bounds=[found.base_bound, found.candidate_bound],
            parts=rows,
            unlike=[each.what for each in found.unlike],
            findings=[{"rule": each.rule, "what": each.what, "title": each.title} for each in found.findings],
        )

    def preflight(self, run: str = "") -> str:
        """What the TPU compiler said of the script and its variants, where the run folder has a preflight's answer.

        Starting one needs the command `tpuprof preflight`: it runs the script.
        """
        found, notes = self._roots.open(run).preflight()
        reason = (
            ""
            if found
            else "the run folder holds no preflight; `tpuprof preflight SCRIPT --tpu v5e-4 --json` makes one"
        )
        return answer("variants", variants=[vars(each) for each in found], notes=notes, unavailable=reason)

    def rules(self, rule: str = "") -> str:
        """The rules with a line each, or what one of them detects, why it costs time and how to fix it."""
        from tpuprof.rules.registry import all_rules, find_rule

        if rule:
            found = find_rule(rule)
            return found.page.text[:_ROOM_FOR_PAGE]
        return answer("rules", rules=[each.id for each in all_rules()])


def _check_word(name: str, given: str, words: tuple[str, ...]) -> None:
    if given not in words:
        raise _refused(f"{name} is {given!r}", f"It may be {', '.join(words)}.")


def _refused(what: str, hint: str) -> TpuprofError:
    return TpuprofError(Code.USAGE, f"{what}.", hint)


def _steps_shown(report: Report) -> str:
    numbers = [each.index for each in report.steps.shown]
    return f"It shows steps {min(numbers)} to {max(numbers)}." if numbers else "It shows none."


def _exact_answer(columns: list[str], rows: list[list[Any]], cut: bool) -> str:
    """A table with every digit: rounding is for summaries."""
    import json

    from tpuprof.mcp.answers import MAX_CHARACTERS

    left = 0
    while True:
        told: dict[str, Any] = {"columns": columns, "rows": rows}
        if left:
            told["rows_left_out"] = left
        if cut or left:
            told["more"] = "add LIMIT, WHERE or GROUP BY"
        text = json.dumps(told, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        if len(text) <= MAX_CHARACTERS or not rows:
            return text
        drop = max(1, int(len(rows) * (1 - MAX_CHARACTERS / len(text))))
        rows, left = rows[:-drop], left + drop


def _head(finding: Finding) -> dict[str, Any]:
    return {"rule": finding.rule, "title": finding.title}


def _finding(finding: Finding) -> dict[str, Any]:
    saving = finding.savings
    sources = list(dict.fromkeys(place for each in finding.evidence for place in each.places))
    return {
        "rule": finding.rule,
        "status": finding.status,
        "title": finding.title,
        "severity_share": finding.severity,
        "saves_ms": [saving.low, saving.high] if saving else None,
        "saves_per": saving.per if saving else None,
        "confidence": finding.confidence,
        "sources": sources[:3],
        "evidence_ids": [evidence_id(finding.rule, at) for at in range(1, len(finding.evidence) + 1)][:8],
    }


def _fact(key: str, each: Evidence) -> dict[str, Any]:
    return {"id": key, **{name: value for name, value in vars(each).items() if value not in (None, "", [])}}


def _op(op: Any) -> dict[str, Any]:
    names = (
        "name",
        "category",
        "kind",
        "program",
        "occurrences",
        "self_ms",
        "self_ms_per_step",
        "limit",
        "roofline",
        "source",
        "annotation",
    )
    return {name: getattr(op, name) for name in names}
