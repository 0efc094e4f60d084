"""What facts are called in tables and answers."""

from __future__ import annotations


def evidence_id(rule: str, number: int) -> str:
    """The id of a finding's fact; `number` counts from 1. It is the same for the same run and version."""
    return f"{rule}#{number}"
