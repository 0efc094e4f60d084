"""Generates docs/cli.md from the command line, docs/rules/ and rules.md from the rules, tables.md from their schema.

python docs/generate.py            # writes them
python docs/generate.py --check    # exits with 1 if they are not what it would write
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuprof.rules.base import Rule

DOCS = Path(__file__).resolve().parent


def cli_page() -> str:
    """Every subcommand's help, in the order of `tpuprof --help`."""
    import typer.main

    from tpuprof.cli.main import app

    group = typer.main.get_command(app)
    parts = [
        "# The command line",
        "",
        "```console",
        "$ python -m tpuprof --help             # all commands",
        "$ python -m tpuprof analyze --help     # one of them",
        "```",
        "",
        "Generated from the commands' own help by `python docs/generate.py`.",
        "",
        "Exit status: 0 fine, 1 a budget or comparison failed, 2 unusable input or usage, 3 a defect of tpuprof.",
        "Data goes to stdout, messages to stderr. An error is one line with a stable code in brackets; `--debug` adds",
        "the traceback.",
    ]
    for name, command in group.commands.items():  # type: ignore[attr-defined]  # a group has commands
        with command.make_context(f"tpuprof {name}", [], resilient_parsing=True) as context:
            context.terminal_width = context.max_content_width = 100
            parts += ["", f"## tpuprof {name}", "", "```text", command.get_help(context).strip(), "```"]
    return "\n".join(parts) + "\n"


def rule_page(rule: Rule) -> str:
    """One rule's docstring as a page."""
    note = f"Category {rule.category}, {rule.status}. Generated from the rule's own text by `python docs/generate.py`."
    return (
        f"# {rule.id}\n\n{note} [Signals](../rules.md#signals) are explained with all rules.\n\n{rule.text}\n"
    )


def _checked(rule: Rule) -> str:
    """How a rule's advice was checked, by framework."""
    return ", ".join(
        advice.checked
        + (" (not yet)" if advice.pending else "")
        + ("" if framework == "torch_xla" else f" ({framework})")
        for framework, advice in rule.advice.items()
    )


def rules_page() -> str:
    """What rules are, every rule with its summary, and the signals they read."""
    from tpuprof.rules.registry import all_rules
    from tpuprof.signals import Signals, signal_units

    parts = [(DOCS / "rules.head.md").read_text("utf-8").rstrip(), "", "## All rules", ""]
    parts += ["| rule | category | status | advice | |", "|---|---|---|---|---|"]
    for rule in all_rules():
        cells = (
            f"[{rule.id}](rules/{rule.id}.md)",
            rule.category,
            rule.status,
            _checked(rule),
            rule.page.summary,
        )
        parts.append(f"| {' | '.join(cells)} |")
    parts += ["", "## Signals", "", "| signal | unit | definition |", "|---|---|---|"]
    for name, unit in signal_units().items():
        definition = " ".join((getattr(Signals, name).__doc__ or "").split())
        parts.append(f"| `{name}` | {unit} | {definition} |")
    return "\n".join(parts) + "\n"


def tables_page() -> str:
    """What tables a run has, below the page's head."""
    from tpuprof.tables.schema import SCHEMA, tables_page

    head = (DOCS / "tables.head.md").read_text("utf-8").rstrip()
    return f"{head}\n\n## Schema {SCHEMA}\n\n{tables_page()}".rstrip() + "\n"


def pages() -> dict[str, str]:
    """Every generated page by its path below docs/."""
    from tpuprof.rules.registry import all_rules

    rules = {f"rules/{rule.id}.md": rule_page(rule) for rule in all_rules()}
    return {"cli.md": cli_page(), "rules.md": rules_page(), "tables.md": tables_page(), **rules}


def main(arguments: list[str]) -> int:
    """Write the pages, or compare them."""
    stale = []
    for name, text in pages().items():
        path = DOCS / name
        path.parent.mkdir(exist_ok=True)
        if "--check" not in arguments:
            path.write_text(text, "utf-8")
        elif not path.is_file() or path.read_text("utf-8") != text:
            stale.append(name)
    if stale:
        print(f"stale: {', '.join(stale)}; run: python docs/generate.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
