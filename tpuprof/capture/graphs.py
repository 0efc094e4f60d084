"""Keeps each compiled graph of a capture as its own file, so that two of them can be compared.

The profile embeds the HLO of every program that ran. Of those compiled inside the capture the graph's hash is
known: the compile names it, and the program is the one that first ran after it.
"""

from __future__ import annotations

import re
from pathlib import Path

from tpuprof.capture.run_folder import OWN

GRAPHS = OWN / "graphs"
_UNSAFE = re.compile(r"[^A-Za-z0-9_.\-]")


def write_graphs(run: Path, profile: Path) -> dict[str, str]:
    """Write each program of a profile to `tpuprof/graphs`; returns file name by program name.

    A file is named by the graph's hash where the capture tells it, else by the program: graphs compiled
    before the capture left no hash in it.
    """
    from tpuprof.decode.load import load
    from tpuprof.model.hlo_metadata import hlo_protos
    from tpuprof.model.run import read_host_run

    compiles = read_host_run("", profile).compiles
    hashes = {each.program: each.graph_hash for each in compiles if each.program and each.graph_hash}
    folder = run / GRAPHS
    files = {}
    for program, data in hlo_protos(load(profile)):
        folder.mkdir(parents=True, exist_ok=True)
        file = f"{_UNSAFE.sub('_', hashes.get(program, program))}.hlo.pb"
        (folder / file).write_bytes(data)
        files[program] = file
    return files
