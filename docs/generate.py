"""Generates docs/cli.md from the command line itself.

python docs/generate.py            # writes them
python docs/generate.py --check    # exits with 1 if they are not what it would write
"""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent


def cli_page() -> str:
    """Every subcommand's help, in the order of `tpuprof --help`."""
    import typer.main

    from tpuprof.cli.main import app

    group = typer.main.get_command(app)
    parts = [
        "# The command line",
        "",
        "Generated from the commands' own help by `python docs/generate.py`.",
        "",
        "Exit status: 0 fine, 1 a budget or comparison failed, 2 unusable input or usage. Data goes to stdout, talk",
        "to stderr. An error is one line with a stable code in brackets; `tpuprof --debug` adds the traceback.",
    ]
    for name, command in group.commands.items():  # type: ignore[attr-defined]  # a group has commands
        with command.make_context(f"tpuprof {name}", [], resilient_parsing=True) as context:
            context.terminal_width = context.max_content_width = 100
            parts += ["", f"## tpuprof {name}", "", "```text", command.get_help(context).strip(), "```"]
    return "\n".join(parts) + "\n"


PAGES = {"cli.md": cli_page}


def main(arguments: list[str]) -> int:
    """Write the pages, or compare them."""
    stale = []
    for name, page in PAGES.items():
        path, text = DOCS / name, page()
        if "--check" not in arguments:
            path.write_text(text, "utf-8")
        elif not path.is_file() or path.read_text("utf-8") != text:
            stale.append(name)
    if stale:
        print(f"stale: {', '.join(stale)}; run: python docs/generate.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
