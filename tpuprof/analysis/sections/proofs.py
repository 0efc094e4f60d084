"""What came of fixes that were tried, beside the findings that they are of."""

from __future__ import annotations

from dataclasses import replace

from tpuprof.model.proof_notes import Proof
from tpuprof.report.schema import Finding, ProofRow


def with_proofs(findings: list[Finding], proofs: list[Proof]) -> list[Finding]:
    """The findings, each with the proofs of its rule."""
    if not proofs:
        return findings
    rows: dict[str, list[ProofRow]] = {}
    for each in proofs:
        facts = {name: value for name, value in vars(each).items() if name != "rule"}
        rows.setdefault(each.rule, []).append(ProofRow(**facts))
    return [replace(each, proofs=rows[each.rule]) if each.rule in rows else each for each in findings]
