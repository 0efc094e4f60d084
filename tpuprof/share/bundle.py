"""The ticket bundle: everything a maintainer needs to look at a run, in one zip, redacted throughout."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuprof.decode import sniff
from tpuprof.decode.find import host_name
from tpuprof.decode.mapped_file import ProfileFile
from tpuprof.json_notes import parse_json, read_json, read_text
from tpuprof.render import content
from tpuprof.render.html import render_html
from tpuprof.render.markdown import render_markdown
from tpuprof.report.as_json import to_json
from tpuprof.run_folder import (
    EXPORT_SUFFIXES,
    GRAPH_SUFFIX,
    GRAPHS,
    NOTES,
    PROFILES,
    REPORT,
    profile_name,
    run_infos,
    telemetry_files,
    texts,
)
from tpuprof.share import chrome_bundle
from tpuprof.share.cut import cut
from tpuprof.share.packing import InOrder, Packed, Packing, all_packed, packing, write_zip
from tpuprof.share.redact_proto import MessageRedaction
from tpuprof.share.redacted_report import by_column
from tpuprof.share.sensitive import Kind
from tpuprof.share.space import joined, split
from tpuprof.share.trim import Window, representative, trim
from tpuprof.storage.mirror import copy_of

if TYPE_CHECKING:
    from tpuprof.report.schema import Report
    from tpuprof.share.redact import Redactor

Text = Callable[[str], str]
# Objects made of a profile take some five times its bytes; what is larger after the cut is left out (bytes).
MAX_PROFILE_BYTES = 600 << 20
# Of text that is longer, the beginning goes in: a ticket's reader looks at the first compiles (characters).
MAX_TEXT = 4 << 20
RUN = Path("run")
# What an analysis of the run folder in the bundle says beside its verdict.
CUT_RUN = "this run was cut down to a few steps for a ticket bundle: its report.json is of all steps, and may differ"
# What a bundle says that is made where the run is not: the saved report may be a bundle, which has more than this one.
OF_A_SAVED_REPORT = (
    "made from a saved report: it has nothing of the run but that; a bundle of the run itself has more"
)
_TITLE = """\
tpuprof ticket bundle
=====================

"""
# What is said of each member, or of a folder of them.
_CONTENTS = {
    "report.html": """\
report.html     the report, for reading; open it in a browser
""",
    "report.md": """\
report.md       the same, to paste into an issue
""",
    REPORT: """\
report.json     the same as data: tpuprof diff BASE.zip THIS.zip, tpuprof check THIS.zip
""",
    "environment.txt": """\
environment.txt versions, device, flags, variables, command line
""",
    "metrics.txt": """\
metrics.txt     torch_xla's counters and metrics, summed over the steps that were recorded
""",
    RUN.name: """\
run/            a run folder, cut down to a few steps: tpuprof analyze run, tpuprof dashboard run, and a TensorBoard
                logdir for XProf; torch_xla's own metrics report and debug text as far as they were kept. The report is
                of all steps: what is said of these few may differ
""",
    GRAPHS.name: """\
graphs/         the HLO of graphs that were compiled during the capture, and of those that ran beside them, as far as
                the profile has it
""",
    "manifest.json": """\
manifest.json   what is in here, what was left out and why, what kinds of private values were replaced and how often
""",
}


@dataclass
class Bundle:
    """What goes into the zip, by member name, with notes on what was left out.

    `literals` are private values that must not be left in any of it.
    """

    members: dict[str, bytes | Packing] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    literals: list[str] = field(default_factory=list)


def write_bundle(path: Path, report: Report, run_folder: Path | None, redactor: Redactor | None) -> list[str]:
    """Write the bundle of a run; returns notes on what is missing from it.

    `report` is the one not redacted: files of the run are found by it. `redactor` None keeps everything.
    """
    bundle = Bundle()
    telemetry = _telemetry(run_folder)
    if redactor is not None:
        for row in telemetry.values():
            redactor.learn(row)
    text = redactor.text if redactor is not None else _same
    # The report first, so that its pseudonyms are those of every other output of this run.
    shown = redactor.value(by_column(report)) if redactor is not None else report
    cut = any(representative(report, host) is not None for host in _hosts(report))
    files = [copy_of(file) for file in report.source["files"]]
    if run_folder is None and not any(file.exists() for file in files):
        files = []
        bundle.notes.append(OF_A_SAVED_REPORT)
    else:
        _add_run_notes(bundle, run_folder, telemetry, redactor, cut=cut)
    _add_texts(bundle, run_folder, redactor)
    messages = MessageRedaction(redactor) if redactor is not None else None
    # All is learned that there is.
    bundle.literals = redactor.literals() if redactor is not None else []
    for file, host in zip(files, _hosts(report) if files else [], strict=True):
        _add_profile(bundle, file, host, report, text, messages)
    if redactor is not None:
        shown = replace(shown, redactions=redactor.counts_by_kind())
    bundle.members["environment.txt"] = _environment_text(shown).encode()
    bundle.members["metrics.txt"] = _metrics_text(telemetry, text).encode()
    _add_reports(bundle, shown)
    _write(path, bundle, redactor)
    return bundle.notes


def _same(text: str) -> str:
    return text


def _same_value(value: Any) -> Any:
    return value


def _hosts(report: Report) -> list[str]:
    """The host of each file, as the report's steps call it."""
    known = list(dict.fromkeys(step.host for step in report.steps.per_step))
    files = [host_name(Path(file)) for file in report.source["files"]]
    return known if len(known) == len(files) and set(known) != set(files) else files


def _telemetry(run_folder: Path | None) -> dict[str, list[Any]]:
    """Rows of each telemetry file by its name; damaged lines are left out."""
    found: dict[str, list[Any]] = {}
    for path in telemetry_files(run_folder) if run_folder else []:
        rows = []
        for line in _lines(path):
            try:
                row = parse_json(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                rows.append(row)
        found[path.name] = rows
    return found


def _lines(path: Path) -> list[str]:
    """The lines of a file, none where it cannot be read."""
    try:
        return read_text(path).splitlines()
    except OSError:
        return []


def _add_run_notes(
    bundle: Bundle,
    run_folder: Path | None,
    telemetry: dict[str, list[Any]],
    redactor: Redactor | None,
    *,
    cut: bool,
) -> None:
    if run_folder is None:
        bundle.notes.append("not captured by tpuprof: there is no run.json and no telemetry")
        return
    value: Callable[[Any], Any] = redactor.value if redactor is not None else _same_value
    text = redactor.text if redactor is not None else _same
    for path in run_infos(run_folder):
        try:
            info = read_json(path)
        except (OSError, ValueError):
            bundle.notes.append(f"{text(path.name)} cannot be read and was left out")
            continue
        if isinstance(info, dict):
            info.pop("graphs", None)  # those files are not in here
            warnings = info.get("warnings")
            said = [CUT_RUN] if cut else []
            info["warnings"] = [*(warnings if isinstance(warnings, list) else []), *said]
        bundle.members[str(RUN / NOTES / text(path.name))] = _json(value(info))
    for name, rows in telemetry.items():
        lines = "".join(json.dumps(value(row)) + "\n" for row in rows)
        bundle.members[str(RUN / NOTES / text(name))] = lines.encode()


def _add_texts(bundle: Bundle, run_folder: Path | None, redactor: Redactor | None) -> None:
    """torch_xla's metrics report and what PT_XLA_DEBUG printed, as the capture kept them."""
    for path in texts(run_folder) if run_folder else []:
        with path.open("r", encoding="utf-8", errors="replace") as file:
            text = file.read(MAX_TEXT)
        if redactor is not None:
            redactor.learn(text)
        shown = redactor.text if redactor is not None else _same
        # As a whole: a private key spans lines.
        bundle.members[str(RUN / NOTES / shown(path.name))] = shown(text).encode()


def _add_profile(
    bundle: Bundle, path: Path, host: str, report: Report, text: Text, messages: MessageRedaction | None
) -> None:
    from google.protobuf.message import DecodeError

    label = text(path.name)
    kind = sniff.sniff(path) if path.is_file() else ""
    if kind not in (sniff.XPLANE, sniff.XPLANE_GZ, sniff.CHROME, sniff.CHROME_GZ):
        bundle.notes.append(f"{label} was left out: it is not a profile")
        return
    window = representative(report, host)
    try:
        if kind in (sniff.CHROME, sniff.CHROME_GZ):
            _add_chrome(bundle, path, kind == sniff.CHROME_GZ, window, text)
            return
        changed = {row.program for row in report.compiles if row.host == host and row.program}
        with Packing(bundle.literals) as profile:
            programs = _cut_down(path, kind == sniff.XPLANE_GZ, window, changed, messages, profile.add)
    except OverflowError:
        bundle.notes.append(f"{label} was left out: it is too large to be cut down here")
        return
    except (DecodeError, EOFError, zlib.error):
        bundle.notes.append(f"{label} was left out: it is damaged")
        return
    name = profile_name(text(host_name(path)))
    bundle.notes.append(_cut_note(name, window))
    bundle.members[_member(path, name, text)] = profile
    for program in sorted(programs) if changed & programs.keys() else []:
        file = "".join(char if char.isalnum() or char in "._-" else "_" for char in text(program))
        graph = programs[program]
        redacted = graph if messages is None else messages.hlo(graph)
        bundle.members[f"{GRAPHS.name}/{file}{GRAPH_SUFFIX}"] = redacted


def _cut_down(
    path: Path,
    gzipped: bool,
    window: Window | None,
    programs: set[str],
    messages: MessageRedaction | None,
    add: Callable[[bytes], None],
) -> dict[str, bytes]:
    """Add the parts of the profile as it goes in, redacted unless `messages` is None; the programs it embeds, by name.

    Raises `OverflowError` where too much would be made into objects, and what a damaged file raises.
    """
    profile = ProfileFile(path)
    data = memoryview(_unpacked(path)) if gzipped else profile.data
    shorter = cut(data, window, profile.drop_pages) if window is not None else None
    if (len(data) if shorter is None else sum(map(len, shorter.planes))) > MAX_PROFILE_BYTES:
        raise OverflowError
    space = split(data) if shorter is None else shorter

    def redacted(part: bytes) -> bytes:
        return part if messages is None else messages.xspace(part)

    parts = InOrder(add)
    found = trim(
        space.planes,
        window,
        programs,
        lambda number, plane: parts.add(number, redacted(joined([plane]))),
        ran=None if shorter is None else shorter.ran,
    )
    add(redacted(space.rest))
    profile.check()
    return found


def _add_chrome(bundle: Bundle, path: Path, gzipped: bool, window: Window | None, text: Text) -> None:
    """The profiler's Chrome JSON, cut down and redacted like an XPlane profile."""
    if path.stat().st_size > MAX_PROFILE_BYTES:
        raise OverflowError
    try:
        document = json.loads(_unpacked(path) if gzipped else path.read_bytes())
        shown = chrome_bundle.cut_down(document, window, text)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError):
        bundle.notes.append(f"{text(path.name)} was left out: it is damaged")
        return
    name = text(host_name(path)) + EXPORT_SUFFIXES[1]
    bundle.notes.append(_cut_note(name, window))
    # No time stamp: the same run gives the same bytes.
    bundle.members[_member(path, name, text)] = gzip.compress(json.dumps(shown).encode(), mtime=0)


def _unpacked(path: Path) -> bytearray:
    """A compressed profile. Raises as `sniff.gunzip_in_place` does; `OverflowError` also above `MAX_PROFILE_BYTES`."""
    return sniff.gunzip_in_place(path.read_bytes(), MAX_PROFILE_BYTES)


def _cut_note(name: str, window: Window | None) -> str:
    kept = f"steps {window.steps[0]} to {window.steps[-1]}" if window else "all of it: it marks no steps"
    return f"{name} was cut down to {kept}"


def _member(path: Path, name: str, text: Text) -> str:
    session = text(path.parent.name) if path.parent.parent.name == PROFILES.name else "capture"
    return str(RUN / PROFILES / session / name)


def _add_reports(bundle: Bundle, shown: Report) -> None:
    # The largest first: it is packed meanwhile.
    bundle.members[REPORT] = packing(to_json(shown).encode(), bundle.literals)
    bundle.members["report.html"] = render_html(shown).encode()
    bundle.members["report.md"] = render_markdown(shown).encode()
    bundle.members["README.txt"] = _readme(bundle.members).encode()


def _readme(members: Iterable[str]) -> str:
    """What the members are; nothing is said of what is not among them."""
    known = {"manifest.json", *(name.partition("/")[0] for name in members)}
    return _TITLE + "".join(text for name, text in _CONTENTS.items() if name in known)


def _environment_text(report: Report) -> str:
    return "".join(f"{name}: {value}\n" for name, value in content.environment_facts(report))


def _metrics_text(telemetry: dict[str, list[Any]], text: Text) -> str:
    """Counters and metrics summed over all recorded steps, in the manner of torch_xla's metrics report."""
    lines = []
    for name, rows in telemetry.items():
        counters: dict[str, int] = {}
        metrics: dict[str, tuple[int, float]] = {}
        for row in rows:
            for key, value in _table(row.get("counters")):
                if isinstance(value, int):
                    counters[key] = counters.get(key, 0) + value
            for key, value in _table(row.get("metrics")):
                if (
                    isinstance(value, list)
                    and len(value) == 2
                    and all(isinstance(x, int | float) for x in value)
                ):
                    old = metrics.get(key, (0, 0.0))
                    metrics[key] = (old[0] + value[0], old[1] + value[1])
        lines.append(f"{text(name)}: {len(rows)} steps")
        for key, (count, total) in sorted(metrics.items()):
            lines += [f"Metric: {text(key)}", f"  TotalSamples: {count:g}", f"  Accumulator: {total:g}"]
        for key, value in sorted(counters.items()):
            lines += [f"Counter: {text(key)}", f"  Value: {value}"]
    return "\n".join(lines or ["unavailable: the run folder holds no telemetry"]) + "\n"


def _table(value: Any) -> list[tuple[str, Any]]:
    """What a field of the telemetry holds by name; a file that somebody changed may hold anything there."""
    return list(value.items()) if isinstance(value, dict) else []


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()


def _write(path: Path, bundle: Bundle, redactor: Redactor | None) -> None:
    members = all_packed(bundle.members, bundle.literals)
    manifest = {
        "schema": "tpuprof.bundle/1",
        "redacted": redactor is not None,
        "looked_for": [kind.value for kind in Kind] if redactor is not None else [],
        "replaced": redactor.counts_by_kind() if redactor is not None else {},
        "blotted_out": sum(each.blotted for each in members.values()),
        "notes": bundle.notes,
        "members": {name: each.size for name, each in sorted(members.items())},
    }
    members["manifest.json"] = packing(_json(manifest), []).packed()
    write_zip(path, _in_order(members))


def _in_order(members: dict[str, Packed]) -> Iterator[tuple[str, Packed]]:
    """What people open first comes first."""
    first = ("README.txt", "report.html", "report.md", REPORT, "environment.txt", "manifest.json")
    yield from ((name, members[name]) for name in first)
    yield from sorted((name, data) for name, data in members.items() if name not in first)
