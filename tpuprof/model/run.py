"""A run: every host's trace, its steps, and where their time went."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuprof.decode.columns import Trace
from tpuprof.decode.find import Found
from tpuprof.decode.limited import limited
from tpuprof.decode.load import load
from tpuprof.decode.torch_trace import read_torch_trace
from tpuprof.errors import Code, TpuprofError
from tpuprof.json_notes import read_json
from tpuprof.model.attribution import attribute
from tpuprof.model.busy_machine import busy_machine
from tpuprof.model.compile.recurrence import History, read_after
from tpuprof.model.host_run import HostRun, read_host_run
from tpuprof.model.notes import Notes, read_notes
from tpuprof.model.preflight_notes import Variant, read_preflight
from tpuprof.model.proof_notes import Proof, read_proofs
from tpuprof.model.run_facts import loaded_checkpoint, noted_gradients, noted_looks, ops_at_once
from tpuprof.model.span_notes import read_span_notes
from tpuprof.model.steps import no_steps
from tpuprof.model.steps.few import in_the_means
from tpuprof.model.telemetry import step_records
from tpuprof.records import record
from tpuprof.report.run_info import checked
from tpuprof.report.span_note import SpanNote
from tpuprof.run_folder import RUN_INFO, RUN_SCHEMA, TORCH_TRACE

if TYPE_CHECKING:
    from concurrent.futures import Executor

# What is said of a host of which the trace has no op.
NO_OPS = "the trace has programs of its devices and no op: what they do in them is unknown"
# What `read_host_run` takes, except for the reader.
_Job = tuple[str, Path, int | None, tuple[str, ...], History]


@record
class Run:
    """All hosts of a run. `info` is tpuprof's own run.json, empty where the trace came from elsewhere."""

    files: dict[str, Path]
    hosts: list[HostRun]
    info: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)
    # What the TPU compiler said of the script and its variants, where the run folder has a preflight's answer.
    preflight: list[Variant] = field(default_factory=list)
    # Why a host's profile cannot be read, by host.
    unread_hosts: dict[str, str] = field(default_factory=dict)
    # What came of fixes that were tried, where the run folder has it.
    proofs: list[Proof] = field(default_factory=list)
    # What people noted on spans of it.
    span_notes: list[SpanNote] = field(default_factory=list)

    @property
    def predicted(self) -> bool:
        """Whether the device times are a compiler's estimate, not a measurement."""
        return bool(self.info.get("predicted"))


def build_run(found: Found, executor: Executor | None = None, read: Callable[[Path], Trace] = load) -> Run:
    """Read every host's file, each on its own, through `executor` where one is given, else by `read`.

    Raises `TpuprofError` where a file cannot be read.
    """
    info, notes = read_run_info(found.run_folder)
    devices, names = virtual_devices(info), parameter_names(info)
    jobs = [
        (name, path, devices, names, job_facts(found.run_folder, name, info))
        for name, path in found.files.items()
    ]
    hosts, unread_hosts = _read_all(jobs, executor, read)
    _leave_hosts_out(hosts)
    _note_missing_ops(hosts)
    preflight, unread = read_preflight(found.run_folder, info)
    damaged: list[str] = []
    proofs = read_proofs(found.run_folder, damaged)
    left_out = [f"{name}: this host is left out. {why}" for name, why in unread_hosts.items()]
    warnings = limited(
        [
            *left_out,
            *found.warnings,
            *notes,
            *run_notes(info, len(hosts)),
            *unread,
            *(text for *_, history in jobs for text in history.damaged),
            *damaged,
        ]
    )
    files = {host.name: found.files[host.name] for host in hosts}
    return Run(
        files,
        hosts,
        info,
        warnings,
        read_notes(found.run_folder, info),
        preflight,
        unread_hosts,
        proofs,
        read_span_notes(found),
    )


def _read_all(
    jobs: list[_Job], executor: Executor | None, read: Callable[[Path], Trace]
) -> tuple[list[HostRun], dict[str, str]]:
    """Every host that can be read, and why the others cannot. Raises `TpuprofError` where none can."""
    here: list[Callable[[], HostRun]] = [partial(read_host_run, *job, read) for job in jobs]
    begun: list[Callable[[], HostRun]] = here
    if executor:
        begun = [_begun(executor, job, again) for job, again in zip(jobs, here, strict=True)]
    hosts: list[HostRun] = []
    errors: dict[str, TpuprofError] = {}
    for (name, *_), result, again in zip(jobs, begun, here, strict=True):
        try:
            hosts.append(_result(result, again))
        except TpuprofError as error:
            errors[name] = error
        except Exception as error:
            if len(jobs) == 1:
                raise
            # A defect that one host's file shows must not take the other hosts with it.
            errors[name] = TpuprofError(
                Code.INTERNAL, f"{type(error).__name__}: {error}.", "Please report this."
            )
    if errors and not hosts:
        raise next(iter(errors.values()))
    return hosts, {name: str(error) for name, error in errors.items()}


def _begun(executor: Executor, job: _Job, again: Callable[[], HostRun]) -> Callable[[], HostRun]:
    try:
        return executor.submit(read_host_run, *job).result
    except RuntimeError as error:
        if not _has_died(error):
            raise
        return again


def _result(begun: Callable[[], HostRun], again: Callable[[], HostRun]) -> HostRun:
    """The host that was begun; where a process has died, of memory say, it is read here."""
    try:
        return begun()
    except RuntimeError as error:
        if not _has_died(error):
            raise
        return again()


def _has_died(error: RuntimeError) -> bool:
    """Whether an executor broke; who never had one has not imported what it is."""
    futures = sys.modules.get("concurrent.futures")
    return futures is not None and isinstance(error, futures.BrokenExecutor)


def job_facts(folder: Path | None, host: str, info: dict[str, Any]) -> History:
    """What the process of one host noted of its steps, where the run folder has it; `info` is run.json."""
    programs = read_torch_trace(folder / TORCH_TRACE) if folder is not None else []
    held = noted_gradients(info)
    damaged: list[str] = []
    records, after = step_records(folder, host, damaged), read_after(folder, host, damaged)
    unused = held.by_shape if held is not None else {}
    return History(
        records=records,
        after=after,
        programs=programs,
        unused_gradients=unused,
        checkpoints=loaded_checkpoint(info),
        ops_at_once=ops_at_once(info),
        looks=noted_looks(info),
        damaged=damaged,
    )


def _leave_hosts_out(hosts: list[HostRun]) -> None:
    """Leave a host without steps, where its steps are none of the run's: means are over steps.

    That is one whose only window is its whole capture where other hosts have steps, and one of which the trace shows no
    device where it shows others: all of its steps would count as time in which the devices idle.
    """
    for host in hosts:
        if not in_the_means(host.steps, host.devices, hosts):
            host.steps = no_steps()
            host.breakdown = attribute(host.steps, host.devices, host.activity)


def _note_missing_ops(hosts: list[HostRun]) -> None:
    """Say of a host that its trace has programs of its devices and no op, where that of another one has ops."""
    shown = {host.name: any(len(each.op_events.op) for each in host.devices) for host in hosts}
    for host in hosts:
        if (
            any(shown.values())
            and not shown[host.name]
            and any(len(each.programs.start) for each in host.devices)
        ):
            host.warnings.append(NO_OPS)


def read_run_info(folder: Path | None) -> tuple[dict[str, Any], list[str]]:
    """Tpuprof's run.json and what is wrong with it, if anything; a logdir made by others has none."""
    if folder is None or not (folder / RUN_INFO).exists():
        return {}, []
    try:
        info = read_json(folder / RUN_INFO)
    except (OSError, ValueError) as error:
        return {}, [f"{folder / RUN_INFO} cannot be read ({error}), so the environment is unknown"]
    if not isinstance(info, dict):
        return {}, [f"{folder / RUN_INFO} is not a JSON object"]
    schema = info.get("schema")
    if schema != RUN_SCHEMA:
        return {}, [
            f"{folder / RUN_INFO} has schema {schema!r}, and this tpuprof reads {RUN_SCHEMA!r}: what it says is left "
            f"out. Upgrade tpuprof. [{Code.TOO_NEW.value}]"
        ]
    known, left_out = checked(info)
    return known, [
        f"{folder / RUN_INFO}: {name} is not what it should be, and is left out" for name in left_out
    ]


def run_notes(info: dict[str, Any], hosts: int) -> list[str]:
    """What run.json says is missing or doubtful in a run of which so many hosts are here."""
    return [*_noted(info), *busy_machine(info), *_missing_hosts(info, hosts)]


def _noted(info: dict[str, Any]) -> list[str]:
    """What the capture itself noted as missing or doubtful."""
    notes = info.get("warnings")
    return [str(note) for note in notes] if isinstance(notes, list) else []


def _missing_hosts(info: dict[str, Any], hosts: int) -> list[str]:
    expected = info.get("process_count")
    if not isinstance(expected, int) or hosts >= expected:
        return []
    return [f"the run had {expected} processes, and {hosts} left a profile here: the others are missing"]


def parameter_names(info: dict[str, Any]) -> tuple[str, ...]:
    """Names of the inputs of the step's program, where a preflight noted them."""
    noted = info.get("preflight")
    names = noted.get("parameter_names") if isinstance(noted, dict) else None
    return tuple(str(name) for name in names) if isinstance(names, list) else ()


def virtual_devices(info: dict[str, Any]) -> int | None:
    """The number of a process's own CPU devices, where run.json says it."""
    stated = info.get("device")
    device = stated if isinstance(stated, dict) else {}
    counts = [device.get(name) for name in ("local_count", "global_count")]
    return next((each for each in counts if isinstance(each, int) and each > 0), None)
