"""`tpuprof capture --pod`: the same capture on several hosts at once."""

from __future__ import annotations

import sys
from pathlib import Path

import typer


def capture_pod(
    hosts: Path,
    ssh: str,
    out: Path,
    session: str,
    amounts: dict[str, int],
    flags: dict[str, bool],
    command: list[str],
) -> None:
    """Start `tpuprof capture` on every host; status 2 where one did not capture, and it is named.

    Each host writes into the same folder or URL. Raises `TpuprofError`.
    """
    from tpuprof.capture.board import folder_of, forget
    from tpuprof.capture.pod import SSH, problems, read_hosts, start_all
    from tpuprof.cli.opening import is_url
    from tpuprof.storage.address import url_of

    names = read_hosts(hosts)
    place = (url_of(out) or "") if is_url(out) else str(out.absolute())
    wanted = [each for name, number in amounts.items() for each in (name, str(number))]
    wanted += [name for name, on in flags.items() if on and name != "--force"]
    # Each host has its own Python at the same place, as images of a pod do.
    own = [sys.executable, "-m", "tpuprof", "capture", "-o", place, "--name", session, *wanted]
    if is_url(out):
        from tpuprof.storage.upload import refuse_overwrite as refuse

        refuse(place, session, force=flags["--force"])
    else:
        from tpuprof.capture.run_folder import refuse_overwrite

        refuse_overwrite(out, session, force=flags["--force"])
        # A capture of that name may have been broken off.
        forget(folder_of(out, session))
    typer.echo(f"tpuprof: capturing on {len(names)} hosts", err=True)
    members = start_all(names, ssh or SSH, [*own, "--", *command])
    if not is_url(out):
        forget(folder_of(out, session))
    found = problems(members)
    for error in found:
        typer.echo(f"tpuprof: {error}", err=True)
    typer.echo(f"tpuprof: {len(names) - len(found)} of {len(names)} hosts captured into {out}", err=True)
    if found:
        raise typer.Exit(2)
