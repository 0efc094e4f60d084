"""Tables of ops say which hosts run an op, in runs of several hosts."""

import dataclasses
import io
from html import escape

import pytest
from rich.console import Console

from tests.report import reports
from tpuprof.render.html import render_html
from tpuprof.render.markdown import render_markdown
from tpuprof.render.text import render
from tpuprof.report.op_hosts import has_several_hosts, hosts_of, ms_by_host
from tpuprof.report.schema import CoreRow
from tpuprof.rules.shared.ops import op_evidence


def run_on(*hosts, count=4):
    """A report of so many hosts whose first op ran on these, a millisecond more on each."""
    made = reports.report()
    cores = [CoreRow(f"/device:TPU:0 of {host}", 4, 1.0 + at, None) for at, host in enumerate(hosts)]
    first = dataclasses.replace(made.ops[0], cores=cores)
    environment = {**made.environment, "host_count": count}
    return dataclasses.replace(made, ops=[first, *made.ops[1:]], environment=environment)


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        (("h0", "h1", "h2", "h3"), "all"),
        (("h1",), "h1"),
        (("h3", "h1"), "h1, h3"),
        (("h0", "h1", "h2"), "3 of 4"),
    ],
)
def test_every_table_of_ops_names_the_hosts(hosts, said):
    made = run_on(*hosts)
    assert hosts_of(made.ops[0], made) == said
    out = io.StringIO()
    render(made, Console(file=out, width=200))
    row = next(line for line in out.getvalue().splitlines() if "dot.1" in line)
    for text in (row, render_html(made), render_markdown(made)):
        assert said in text
    assert '<th scope="col" class="">hosts</th>' in render_html(made)


@pytest.mark.parametrize("count", [1, 4])
def test_a_run_of_one_host_and_one_that_shows_ops_of_one_have_no_such_column(count):
    made = run_on(count=count)
    assert not has_several_hosts(made)
    assert '<th scope="col" class="">hosts</th>' not in render_html(made)
    assert "| op | hosts |" not in render_markdown(made)
    assert "| op | hosts |" in render_markdown(run_on("h0"))


def test_the_host_with_most_time_comes_first_and_evidence_names_a_host_that_is_alone():
    made = run_on("h0", "h1")
    assert list(ms_by_host(made.ops[0])) == ["h1", "h0"]
    assert op_evidence(made.ops)[0].host == ""
    assert op_evidence(run_on("h2").ops)[0].host == "h2"


@pytest.mark.parametrize(
    ("host", "title"), [("", "Host offload"), ("<i>w-3</i>", "Host offload, one device of <i>w-3</i>")]
)
def test_tables_of_transfers_of_several_hosts_say_whose_they_are(host, title):
    """They show the device that tells most of them: their rows are no sum over hosts."""
    made = reports.report()
    made = dataclasses.replace(made, offload=[dataclasses.replace(each, host=host) for each in made.offload])
    out = io.StringIO()
    render(made, Console(file=out, width=200))
    assert title in [line.strip() for line in out.getvalue().splitlines()]
    assert f">{escape(title)}</h2>" in render_html(made)
    assert "#### Host offload" in render_markdown(made)
    assert ("one device of" in render_markdown(made)) == bool(host)
