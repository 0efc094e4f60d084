"""Keeps each compiled graph of a capture as its own file, so that two of them can be compared.

The profile embeds the HLO of every program that ran. Of those compiled inside the capture the graph's hash is
known: the compile names it, and the program is the one that first ran after it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tpuprof.run_folder import GRAPH_SUFFIX, GRAPHS

if TYPE_CHECKING:
    from tpuprof.model.compile.compiles import Compile
    from tpuprof.model.host_run import HostRun

_UNSAFE = re.compile(r"[^A-Za-z0-9_.\-]")


def write_graphs(run: Path, profile: Path, compiles: list[Compile]) -> dict[str, str]:
    """Write each program of a profile to `tpuprof/graphs`; returns file name by program name.

    A file is named by the graph's hash where the capture's compiles tell it, else by the program: graphs
    compiled before the capture left no hash in it.
    """
    from tpuprof.decode.load import load
    from tpuprof.model.compile.hlo_metadata import hlo_protos

    hashes = {each.program: each.graph_hash for each in compiles if each.program and each.graph_hash}
    folder = run / GRAPHS
    files = {}
    for program, data in hlo_protos(load(profile)):
        folder.mkdir(parents=True, exist_ok=True)
        file = f"{_UNSAFE.sub('_', hashes.get(program, program))}{GRAPH_SUFFIX}"
        (folder / file).write_bytes(data)
        files[program] = file
    return files


def hashes_by_step(host: HostRun) -> dict[int, list[str]]:
    """Hashes of the graphs each step compiled, in order, by step number."""
    found: dict[int, list[str]] = {}
    for each in host.compiles:
        if each.step is not None:
            found.setdefault(int(host.steps.number[each.step]), []).append(each.graph_hash)
    return found
