"""`tpuprof capture`: records a few steady steps of a training program, or of running ones over the network."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tpuprof.cli.guard import tell
from tpuprof.cli.options import Command, either, parse_duration
from tpuprof.run_folder import USUAL_WARMUP

if TYPE_CHECKING:
    from tpuprof.capture.launch import Ended
    from tpuprof.capture.orders import Orders
    from tpuprof.errors import TpuprofError

Out = Annotated[
    Path, typer.Option("--out", "-o", help="Run folder to capture into; also a URL (gs://, s3://).")
]
Name = Annotated[
    str | None, typer.Option(help="Name of this capture in the run folder.", show_default="the time")
]
Warmup = Annotated[int, typer.Option(min=0, help="Steps to let pass at least.")]
Patience = Annotated[
    int, typer.Option(min=1, help="Steps to wait for steady training before capturing all the same.")
]
Addr = Annotated[
    str | None, typer.Option(help="Attach to running profiler servers: HOST:PORT[,HOST:PORT...]")
]
Duration = Annotated[str, typer.Option(help="With --addr: how long to record, as 5s or 500ms.")]
Pod = Annotated[
    Path | None,
    typer.Option(
        "--pod",
        help="Capture on all hosts of this file (one per line) at the same step.",
        show_default=False,
    ),
]
Ssh = Annotated[
    str,
    typer.Option(
        "--ssh",
        help="With --pod: how a host is reached; {host} and {command} are replaced.",
        show_default="ssh {host} {command}",
    ),
]
TpuName = Annotated[
    str,
    typer.Option(
        "--tpu-name",
        help="Capture on all workers of this TPU VM at the same step, by gcloud.",
        show_default=False,
    ),
]
Zone = Annotated[str, typer.Option("--zone", help="With --tpu-name: its zone.", show_default="gcloud's own")]
# Steps of a capture where no number is asked for (steps): one period of accumulation over eight micro-batches.
DEFAULT_STEPS = 8
Steps = Annotated[
    int | None,
    typer.Option(min=1, help="Steps to capture.", show_default="8, or more of short ones: half a second"),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a capture of the same name.")]
NoHloDebug = Annotated[
    bool, typer.Option("--no-hlo-debug", help="Leave scopes and source lines out of compiled programs.")
]
SourceLines = Annotated[
    bool,
    typer.Option(
        "--source-lines",
        help="Keep source lines of graphs compiled in captured steps; slows their tracing.",
    ),
]


def capture(
    command: Command = None,
    out: Out = Path("runs/capture"),
    name: Name = None,
    warmup: Warmup = USUAL_WARMUP,
    steps: Steps = None,
    patience: Patience = 100,
    addr: Addr = None,
    duration: Duration = "5s",
    pod: Pod = None,
    ssh: Ssh = "",
    tpu_name: TpuName = "",
    zone: Zone = "",
    force: Force = False,
    no_hlo_debug: NoHloDebug = False,
    source_lines: SourceLines = False,
) -> None:
    """Record a few steady steps: `tpuprof capture -o RUN -- python train.py`, or attach with --addr.

    The program runs unchanged and to its end; its exit status is passed through.
    """
    from tpuprof.capture.pod import NAME_VARIABLE, VARIABLE
    from tpuprof.capture.run_writer import session_name

    example = "`tpuprof capture -- python train.py`, or `tpuprof capture --addr HOST:PORT`"
    either("capture", command, "--addr", addr, example)
    session, words = name or session_name(), list(command or ())
    amounts = {"--warmup": warmup, "--steps": steps or DEFAULT_STEPS, "--patience": patience}
    flags = {"--no-hlo-debug": no_hlo_debug, "--source-lines": source_lines, "--force": force}
    if pod is not None or tpu_name or zone:
        from tpuprof.cli.capture_pod import capture_pod, hosts_of

        capture_pod(hosts_of(pod, tpu_name, zone, ssh), out, session, amounts, flags, words)
        return
    # A host of a pod finds the files of hosts that were quicker; whether the name is free was asked before.
    listed_as = os.environ.pop(NAME_VARIABLE, "")
    with _run_folder(out, None if VARIABLE in os.environ else name, force, listed_as) as folder:
        if addr:
            _attach(folder, session, addr, duration)
        else:
            flags |= {"--steps": steps is not None}
            _launch(words, _orders(out, folder, session, amounts, flags, listed_as, words))


def _orders(
    out: Path,
    folder: Path,
    session: str,
    amounts: dict[str, int],
    flags: dict[str, bool],
    listed_as: str,
    command: list[str],
) -> Orders:
    from tpuprof.capture.orders import Orders
    from tpuprof.capture.pod import VARIABLE, place_of
    from tpuprof.cli.opening import is_url
    from tpuprof.share.command_line import without_secrets

    member, members = place_of(os.environ.pop(VARIABLE, ""))
    if is_url(out):
        members = 1  # hosts cannot agree over a bucket
    return Orders(
        str(folder.absolute()),
        session,
        warmup=amounts["--warmup"],
        steps=amounts["--steps"],
        patience=amounts["--patience"],
        steps_stated=flags["--steps"],
        hlo_debug=not flags["--no-hlo-debug"],
        source_lines=flags["--source-lines"],
        member=member,
        members=members,
        listed_as=listed_as,
        command=without_secrets(command),
    )


@contextmanager
def _run_folder(out: Path, name: str | None, force: bool, listed_as: str) -> Iterator[Path]:
    """The folder to capture into; for a URL one on this machine, which is copied there at the end."""
    from tpuprof.cli.opening import is_url

    if not is_url(out):
        from tpuprof.capture.run_writer import refuse_overwrite

        refuse_overwrite(out, name, force=force)
        yield out
        return
    from tpuprof.storage.address import shown, url_of
    from tpuprof.storage.upload import kept_at
    from tpuprof.storage.upload import refuse_overwrite as refuse

    url = url_of(out) or ""
    refuse(url, name, force=force)
    with kept_at(url, listed_as) as folder:
        yield folder
    typer.echo(f"tpuprof: copied to {shown(url)}; next: tpuprof analyze {shown(url)}", err=True)


def _launch(command: list[str], orders: Orders) -> None:
    from tpuprof.capture.launch import run

    began = time.time()
    ended = run(command, orders)
    try:
        _look_at(command, orders, ended, began)
    except typer.Exit:
        raise
    except Exception as error:
        if not ended.status:
            raise
        # The program failed, and who started it asks for that: what went wrong here is only told.
        tell(error)
        raise typer.Exit(ended.status) from error


def _look_at(command: list[str], orders: Orders, ended: Ended, began: float) -> None:
    """Say what was captured, and leave with the program's exit status, or 2 where that is 0 and nothing is usable."""
    from tpuprof.capture import torch_trace
    from tpuprof.capture.interim import tell_end
    from tpuprof.capture.launch import OFFLOAD_ON_CPU
    from tpuprof.capture.nothing import explain, how_it_ended
    from tpuprof.capture.validate import offload_on_cpu, profiles

    torch_trace.keep(Path(orders.run), began)
    if OFFLOAD_ON_CPU in ended.stderr_tail:
        _say(offload_on_cpu())
    own = _own(ended) if orders.members > 1 else None
    if not profiles(Path(orders.run), orders.name, own):
        _say(explain(command, orders, ended))
        raise typer.Exit(ended.status or 2)
    if ended.status:
        typer.echo(f"tpuprof: {how_it_ended(ended)}; what was captured is kept", err=True)
        if not ended.alive:
            tell_end(Path(orders.run), orders.name, how_it_ended(ended))
    usable = _report(Path(orders.run), orders.name, own)
    if ended.status or not usable:
        raise typer.Exit(ended.status or 2)


def _own(ended: Ended) -> set[str]:
    """Labels of the profiles that the processes of this command wrote: the folder has those of other hosts, too."""
    from tpuprof.capture.crumbs import WRITTEN

    return {label for each in ended.processes for label in each.texts(WRITTEN)}


def _attach(out: Path, session: str, addr: str, duration: str) -> None:
    from tpuprof.capture.remote import profile_hosts
    from tpuprof.run_folder import PROFILES

    addresses = [each.strip() for each in addr.split(",") if each.strip()]
    seconds = parse_duration(duration)
    typer.echo(f"tpuprof: recording {len(addresses)} process(es) for {seconds:g} s", err=True)
    files, errors = profile_hosts(addresses, seconds, out / PROFILES, session)
    for error in errors:
        _say(error)
    if not files or not _report(out, session):
        raise typer.Exit(2)


def _report(run: Path, session: str, own: set[str] | None = None) -> bool:
    """Say what was captured and what is wrong with it; whether anything can be analyzed."""
    from tpuprof.capture.validate import validate

    findings = validate(run, session, own)
    for finding in findings:
        _say(finding.error)
    if any(finding.fatal for finding in findings):
        return False
    typer.echo(f"tpuprof: captured into {run}; next: tpuprof analyze {run}", err=True)
    return True


def _say(error: TpuprofError) -> None:
    typer.echo(f"tpuprof: {error}", err=True)
