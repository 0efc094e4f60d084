"""`tpuprof watch`: records every step of a training program, and follows jobs that are watched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tpuprof.cli.options import Command, either

if TYPE_CHECKING:
    from tpuprof.watch.options import WatchOptions

Out = Annotated[Path, typer.Option("--out", "-o", help="Folder or URL of the job; a restart goes on in it.")]
Follow = Annotated[
    Path | None,
    typer.Option(help="Show the job in this folder as it goes, instead of running a command."),
]
Once = Annotated[bool, typer.Option("--once", help="With --follow: print the state once and end.")]
Job = Annotated[
    str,
    typer.Option(help="Name of the job.", show_default="TPUPROF_JOB, JOB_NAME, else from the command"),
]
NoCaptures = Annotated[bool, typer.Option("--no-captures", help="Record no steps when something happens.")]
CapturesPerHour = Annotated[int, typer.Option(min=0, help="Captures per hour at most.")]
CaptureMib = Annotated[int, typer.Option(min=0, help="Disk that captures may take (MiB).")]
HangSeconds = Annotated[
    float, typer.Option(min=0.1, help="A hang is no step for 10 times the median, and for this long (s).")
]
MetricsPort = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Serve metrics for Prometheus; 0 takes a free port.")
]
Tensorboard = Annotated[
    bool, typer.Option("--tensorboard", help="Write scalars for TensorBoard into the folder.")
]


def watch(
    command: Command = None,
    out: Out = Path("runs/watch"),
    follow: Follow = None,
    once: Once = False,
    job: Job = "",
    no_captures: NoCaptures = False,
    captures_per_hour: CapturesPerHour = 4,
    capture_mib: CaptureMib = 1024,
    hang_seconds: HangSeconds = 30.0,
    metrics_port: MetricsPort = None,
    metrics_host: Annotated[str, typer.Option(help="Address to serve them on.")] = "127.0.0.1",
    tensorboard: Tensorboard = False,
) -> None:
    """Record every step: `tpuprof watch -o RUNS -- python train.py`, or show a job with --follow RUNS.

    The program runs unchanged; its exit status is passed through. See `tpuprof goodput` and `tpuprof history`.
    """
    example = "`tpuprof watch -o RUNS -- python train.py`, or `tpuprof watch --follow RUNS`"
    either("watch", command, "--follow", follow, example)
    if follow is not None:
        _follow(follow, once=once)
        return
    from tpuprof.watch.options import WatchOptions

    with _job_folder(out) as (folder, place):
        options = WatchOptions(
            str(folder.absolute()),
            job,
            capture=not no_captures,
            captures_per_hour=captures_per_hour,
            capture_bytes=capture_mib * 2**20,
            hang_seconds=hang_seconds,
            metrics_port=metrics_port,
            metrics_host=metrics_host,
            tensorboard=tensorboard,
        )
        _launch(list(command or ()), options, place)


@contextmanager
def _job_folder(out: Path) -> Iterator[tuple[Path, str]]:
    """The folder to write to, and its name for people; for a URL one on this machine, which is copied there."""
    from tpuprof.cli.opening import is_url

    if not is_url(out):
        yield out, str(out)
        return
    from tpuprof.storage.address import shown, url_of
    from tpuprof.watch.remote import uploaded_to

    url = str(url_of(out))
    with uploaded_to(url) as folder:
        yield folder, shown(url)


def _follow(folder: Path, *, once: bool) -> None:
    """Print the state once, or show it until Ctrl-C."""
    import time

    from tpuprof.cli.terminal import console
    from tpuprof.watch.follow import REFRESH_SECONDS, picture, read_jobs
    from tpuprof.watch.remote import job_folder

    screen = console()
    with job_folder(folder) as (place, mirror):
        if once:
            screen.print(picture(read_jobs(place)))
            return
        from rich.live import Live

        with Live(picture(read_jobs(place)), console=screen, auto_refresh=False) as live:
            while True:
                time.sleep(REFRESH_SECONDS)
                if mirror is not None:
                    mirror.refresh()
                live.update(picture(read_jobs(place)), refresh=True)


def _launch(command: list[str], options: WatchOptions, place: str) -> None:
    from tpuprof.capture.launch import run
    from tpuprof.capture.nothing import how_it_ended
    from tpuprof.capture.orders import Orders
    from tpuprof.watch.session import WatchSession

    session = f"{WatchSession.__module__}:{WatchSession.__name__}"
    orders = Orders(options.folder, "", 0, 0, 1, hlo_debug=False, session=session, watch=options.to_dict())
    ended = run(command, orders)
    if ended.status:
        typer.echo(f"tpuprof: {how_it_ended(ended)}; the ledger is kept", err=True)
    typer.echo(f"tpuprof: watched into {place}; next: tpuprof goodput {place}", err=True)
    if ended.status:
        raise typer.Exit(ended.status)
