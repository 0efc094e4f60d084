"""`tpuprof capture --pod`: the same capture on several hosts at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from tpuprof.errors import TpuprofError


def hosts_of(pod: Path | None, tpu_name: str, zone: str, ssh: str) -> tuple[list[str], str, str]:
    """The hosts of a list or of a TPU VM, how each is reached, and what stands before their names.

    Raises `TpuprofError`.
    """
    from tpuprof.capture.pod import SSH, read_hosts
    from tpuprof.capture.tpu_vm import reach, workers
    from tpuprof.errors import Code, TpuprofError

    if pod is not None and not tpu_name and not zone:
        return read_hosts(pod), ssh or SSH, ""
    if pod is not None or not tpu_name or ssh:
        raise TpuprofError(
            Code.USAGE,
            "--pod with --ssh, and --tpu-name with --zone, are two ways to name the hosts.",
            "Give one of the two.",
        )
    return workers(tpu_name, zone), reach(tpu_name, zone), f"{tpu_name} worker "


def capture_pod(
    hosts: tuple[list[str], str, str],
    out: Path,
    session: str,
    amounts: dict[str, int],
    flags: dict[str, bool],
    command: list[str],
) -> None:
    """Start `tpuprof capture` on every host; status 2 where one did not capture, and it is named.

    `hosts` is what `hosts_of` found. Each host writes into the same folder or URL. Raises `TpuprofError`.
    """
    from tpuprof.capture.board import folder_of, forget
    from tpuprof.capture.pod import problems, start_all
    from tpuprof.cli.opening import is_url
    from tpuprof.storage.address import url_of

    names, ssh, label = hosts
    place = (url_of(out) or "") if is_url(out) else str(out.absolute())
    wanted = [each for name, number in amounts.items() for each in (name, str(number))]
    wanted += [name for name, on in flags.items() if on and name != "--force"]
    # Each host has its own Python at the same place, as images of a pod do.
    own = [sys.executable, "-m", "tpuprof", "capture", "-o", place, "--name", session, *wanted]
    if is_url(out):
        from tpuprof.storage.upload import refuse_overwrite as refuse

        refuse(place, session, force=flags["--force"])
    else:
        from tpuprof.capture.run_writer import refuse_overwrite

        refuse_overwrite(out, session, force=flags["--force"])
        # A capture of that name may have been broken off.
        forget(folder_of(out, session))
    typer.echo(f"tpuprof: capturing on {len(names)} hosts", err=True)
    members = start_all(names, ssh, [*own, "--", *command], label=label)
    if not is_url(out):
        forget(folder_of(out, session))
    _report(problems(members), len(names), out)


def _report(found: list[TpuprofError], hosts: int, out: Path) -> None:
    for error in found:
        typer.echo(f"tpuprof: {error}", err=True)
    typer.echo(f"tpuprof: {hosts - len(found)} of {hosts} hosts captured into {out}", err=True)
    if found:
        raise typer.Exit(2)
