"""The JSON report: its fields stay, and it is read back whole."""

import dataclasses
import json
import os
import re
import typing

import pytest

from tests.report import golden, reports
from tpuprof.analysis.analyze import analyze_run
from tpuprof.errors import TpuprofError
from tpuprof.report.as_json import to_json
from tpuprof.report.load import read_report, report_from
from tpuprof.report.pod import Pod
from tpuprof.report.schema import DEPRECATED, DEPRECATED_OF_ROWS, LoopRow, OpRow, Report


def within(kept, now, path="report"):
    """Fields may be added; none goes, is renamed, or says another thing."""
    if isinstance(kept, dict):
        assert isinstance(now, dict), path
        for key, value in kept.items():
            assert key in now, f"{path}.{key} is gone; if that is meant, run:  {golden.COMMAND}"
            within(value, now[key], f"{path}.{key}")
    elif isinstance(kept, list):
        assert len(kept) == len(now), path
        for index, (old, new) in enumerate(zip(kept, now, strict=True)):
            within(old, new, f"{path}[{index}]")
    else:
        assert kept == now, f"{path}; if that is meant, run:  {golden.COMMAND}"


def test_golden():
    text = to_json(reports.with_findings())
    kept = golden.FOLDER / "report.json"
    if golden.os.environ.get("TPUPROF_REBASELINE") or not kept.is_file():
        golden.same("report.json", text)
    within(json.loads(kept.read_text("utf-8")), json.loads(text))


@pytest.mark.parametrize("make", [reports.with_findings, reports.hostile, reports.report])
def test_a_report_is_read_back_whole(make, tmp_path):
    path = tmp_path / "r.json"
    path.write_text(to_json(make()), "utf-8")
    assert read_report(path) == make()


def test_the_report_of_a_real_run_is_read_back_whole(samples, tmp_path):
    report = analyze_run(samples / "decoder_fsdpv2")
    (tmp_path / "r.json").write_text(to_json(report), "utf-8")
    assert read_report(tmp_path / "r.json") == report


def test_fields_of_a_newer_tpuprof_are_passed_over():
    plain = reports.report().to_dict()
    plain["brand_new"] = 1
    plain["steps"]["brand_new"] = [{}]
    assert report_from(plain) == reports.report()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "input-corrupt"),
        ("[]", "input-corrupt"),
        ('{"steps": 3}', "input-corrupt"),
        ('{"schema": "tpuprof.report/2"}', "input-schema-too-new"),
        ('{"schema": "tpuprof.report/1"}', "input-corrupt"),
        ('{"schema": "tpuprof.report/1", "offload": 3}', "input-corrupt"),
    ],
)
def test_what_is_no_report_is_refused_in_one_line(tmp_path, text, code):
    (tmp_path / "r.json").write_text(text, "utf-8")
    with pytest.raises(TpuprofError) as error:
        read_report(tmp_path / "r.json")
    assert str(error.value).endswith(f"[{code}]")


OF_ROWS = {
    OpRow: DEPRECATED_OF_ROWS["ops"],
    LoopRow: DEPRECATED_OF_ROWS["loops"],
    Pod: DEPRECATED_OF_ROWS["pod"],
}


def deprecated(kind):
    return (DEPRECATED if kind is Report else OF_ROWS.get(kind, {})).items()


# Where a record is defined is no part of the JSON.
MODULE = re.compile(r"\btpuprof\.report\.\w+\.")


def names_of(kind, found=None):
    """Every field of a record and of the records in it, as `Record.field: type`."""
    found = set() if found is None else found
    for each in dataclasses.fields(kind):
        type_of = typing.get_type_hints(kind)[each.name]
        line = f"{kind.__name__}.{each.name}: {MODULE.sub('', str(type_of))}"
        if line not in found:
            found.add(line)
            found.update(
                line.replace(f".{name}:", f".{old}:") for old, name in deprecated(kind) if name == each.name
            )
            for inner in records_in(type_of):
                names_of(inner, found)
    return found


def records_in(type_of):
    if dataclasses.is_dataclass(type_of):
        return [type_of]
    return [found for each in typing.get_args(type_of) for found in records_in(each)]


def test_no_name_of_the_schema_is_renamed_or_removed():
    """Names are added to the golden file by TPUPROF_REBASELINE=1, and never leave it while the schema is version 1."""
    path = golden.FOLDER / "names.txt"
    kept, now = set(path.read_text("utf-8").splitlines()) if path.is_file() else set(), names_of(Report)
    if os.environ.get("TPUPROF_REBASELINE"):
        path.write_text("".join(f"{line}\n" for line in sorted(kept | now)), "utf-8")
    assert len(kept) > 400
    assert kept - now == set()


def test_a_removed_name_is_found():
    assert {"Report.loops: list[LoopRow]", "Report.scan: list[LoopRow]"} <= names_of(Report)
    assert not any(line.startswith("Report.rings") for line in names_of(Report))


def test_names_that_were_wrong_are_written_and_read_as_before():
    loop = LoopRow("while.1", "scan", "f", "forward", 4, 10, 1.0, None, [], "train.py:3", "")
    report = dataclasses.replace(reports.report(), loops=[loop])
    plain = report.to_dict()
    assert (plain["scan"], plain["goodput"]) == (plain["loops"], plain["run_summary"])
    assert plain["loops"]
    assert (report.scan, report.goodput) == (report.loops, report.run_summary)
    older = {name: value for name, value in plain.items() if name not in DEPRECATED.values()}
    assert report_from(older) == report
    newer = {name: value for name, value in plain.items() if name not in DEPRECATED}
    assert report_from(newer) == report


def test_a_report_of_an_older_version_says_module_for_program():
    plain = reports.report().to_dict()
    assert [row["module"] for row in plain["ops"]] == [row["program"] for row in plain["ops"]] != []
    for row in plain["ops"]:
        del row["program"]
    assert report_from(plain) == reports.report()
