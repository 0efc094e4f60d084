"""A Report as one self-contained HTML page: no request, no script but its own, readable in light, dark and print."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tpuprof.parts import meaning_of, word_of
from tpuprof.render import charts, content
from tpuprof.render.facts import fact_lines
from tpuprof.render.flame_svg import flame_graph
from tpuprof.render.op_time import largest_first, op_ms, ops_ms, over
from tpuprof.render.triage import measurements, numbers_of, verdict_note
from tpuprof.report.labels import below_findings, nothing_failed, of_steps, transfers_title
from tpuprof.report.op_hosts import has_several_hosts, hosts_of
from tpuprof.report.step_times import step_to_compare
from tpuprof.shown_text import printable, printable_lines
from tpuprof.units import NS_PER_MS, format_bytes, format_ms, format_share

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

    from tpuprof.report.schema import Report

# Rows shown of each table; the JSON has all (rows). Keeps a page far below what a mail server takes.
ROWS_SHOWN = 40
# Characters shown of a name from the trace; hostile ones can be megabytes long (characters).
NAME_LENGTH = 400
# Characters shown of a sentence; the longest advice has some 1,500 (characters).
PROSE_LENGTH = 4_000


# Where the list of contents goes, and the headings it is made of: texts of the report are escaped, so cannot look so.
_CONTENTS = "<!--contents-->"
_HEADING = re.compile(r"<h2>(.*?)</h2>")


def render_html(report: Report) -> str:
    """The page. Every text of the report is escaped by the template."""
    return _with_contents(_page(report))


def _environment(report: Report) -> Environment:
    """Where the template is read from, and how it writes values; every text is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("tpuprof.render"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        ms=lambda value: "unknown" if value is None else format_ms(value),
        share=format_share,
        size=lambda value: "unknown" if value is None else format_bytes(value),
        plain=_plain,
        prose=_prose,
        of_steps=lambda text: of_steps(text, report),
        lines=printable_lines,
    )
    return environment


def _page(report: Report) -> str:
    from markupsafe import Markup

    style, script = (_asset(name) for name in ("report.css", "report.js"))
    template = _environment(report).get_template("report.html.jinja")
    return template.render(
        report=report,
        content=content,
        meaning=partial(meaning_of, sees_device=content.sees_device(report)),
        bound=word_of(report.verdict.bound).title,
        facts=fact_lines(report),
        failed=content.failed_findings(report),
        nothing_failed=nothing_failed(report),
        below_findings=below_findings(report),
        others=content.other_findings(report),
        parts=sorted(report.breakdown.items(), key=lambda item: -item[1].share),
        rows_shown=ROWS_SHOWN,
        bar=Markup(charts.breakdown_bar(report)),
        stack=Markup(charts.step_stack(report)),
        swatches={name: Markup(svg) for name, svg in charts.legend(report)},
        flame=Markup(flame_graph(report)),
        step_to_compare=step_to_compare(report),
        slowest=[] if report.steps.whole_capture else report.steps.longest(10),
        ops=largest_first(report, ROWS_SHOWN),
        op_ms=op_ms,
        ops_ms=ops_ms(report),
        ops_over=over(report),
        first=content.first_to_try(report),
        verdict_note=verdict_note(report),
        measure_next=measurements(report),
        ns_ms=lambda ns: format_ms(ns / NS_PER_MS),
        numbers=numbers_of,
        policy=Markup(_policy(style, script)),
        style=Markup(style),
        script=Markup(script),
        several_hosts=has_several_hosts(report),
        transfers_title=transfers_title,
        hosts_of=hosts_of,
    )


def _asset(name: str) -> str:
    return (files("tpuprof.render") / "templates" / name).read_text("utf-8")


def _policy(style: str, script: str) -> str:
    """What the page may do: apply this style and run this script, and nothing else, whatever stands in its texts."""
    return (
        f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _with_contents(page: str) -> str:
    """The page with a list of its headings, each a link."""
    titles = _HEADING.findall(page)
    links = "".join(f'<li><a href="#part-{at}">{title}</a></li>' for at, title in enumerate(titles))
    numbers = iter(range(len(titles)))
    page = _HEADING.sub(lambda found: f'<h2 id="part-{next(numbers)}">{found[1]}</h2>', page)
    contents = (
        f'<nav class="contents" aria-label="Contents"><p class="label">Contents</p><ul>{links}</ul></nav>'
    )
    return page.replace(_CONTENTS, contents, 1)


def _plain(value: Any, length: int = NAME_LENGTH) -> str:
    """A text without control characters, and no longer than anyone reads."""
    text = printable(str(value))
    return text if len(text) <= length else text[: length - 1] + "…"


def _prose(value: Any) -> Markup:
    """Sentences; what stands between backquotes is code."""
    from markupsafe import Markup, escape

    pieces = _plain(value, PROSE_LENGTH).split("`")
    if len(pieces) % 2 == 0:
        return escape("`".join(pieces))
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(each) if at % 2 else each for at, each in enumerate(pieces))
