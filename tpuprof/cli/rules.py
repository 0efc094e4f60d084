"""`tpuprof rules`: lists the rules, or explains one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tpuprof.cli.options import AsJson

if TYPE_CHECKING:
    from tpuprof.rules.base import Rule


def rules(
    rule_id: Annotated[
        str | None, typer.Argument(help="A rule's id, as exposed-host-offload.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the rules, or explain one: what it detects, why it costs time, how to fix it."""
    from tpuprof.rules.registry import all_rules, find_rule

    chosen = [find_rule(rule_id)] if rule_id else list(all_rules())
    if as_json:
        import json

        listed = [_facts(rule) for rule in chosen]
        typer.echo(json.dumps(listed[0] if rule_id else listed, indent=1))
        return
    if rule_id:
        rule = chosen[0]
        typer.echo(f"{rule.id} ({rule.category}, {rule.status})\n\n{rule.text}")
        return
    width = max(len(rule.id) for rule in chosen)
    for rule in chosen:
        typer.echo(f"{rule.id:{width}}  {rule.category:10}  {rule.page.summary}")


def _facts(rule: Rule) -> dict[str, object]:
    page = rule.page
    return {
        "id": rule.id,
        "category": rule.category,
        "status": rule.status,
        "summary": page.summary,
        "reads": list(rule.reads),
        "sections": page.sections,
        "fix": {"text": page.fix, "before": page.before, "after": page.after, "doc": rule.doc},
        "fixes": {
            framework: {"text": each.text, "before": each.before, "after": each.after}
            for framework, each in page.remedies.items()
        },
        "checked": {framework: each.checked for framework, each in rule.advice.items()},
    }
