"""Keeps each compiled graph of a capture as its own file, so that two of them can be compared.

The profile embeds the HLO of every program that ran. A compile inside the capture names its graph's hash;
which program it made is told by their order: programs embedded for the first time while it compiled.
"""

from __future__ import annotations

import re
from pathlib import Path

from tpuprof.capture.run_folder import OWN

GRAPHS = OWN / "graphs"
_UNSAFE = re.compile(r"[^A-Za-z0-9_.\-]")


def write_graphs(run: Path, profile: Path) -> dict[str, str]:
    """Write each program of a profile to `tpuprof/graphs`; returns file name by program name.

    A file is named by the graph's hash where the capture compiled exactly one graph and holds exactly one
    more program than it ran without, else by the program's own name, since which hash made which program is
    then not known.
    """
    from tpuprof.decode.load import load
    from tpuprof.model.hlo_metadata import hlo_protos

    folder = run / GRAPHS
    files = {}
    for name, data in hlo_protos(load(profile)):
        folder.mkdir(parents=True, exist_ok=True)
        file = f"{_UNSAFE.sub('_', name)}.hlo.pb"
        (folder / file).write_bytes(data)
        files[name] = file
    return files
