"""Notes what a training script offers by itself: the options of its command line, and the meshes that it makes.

Runs inside the script's process. Each is a line of JSON in the folder of the trace, which a script that dies
leaves behind.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

NOTES = "noted.ndjson"
FOLDER_VARIABLE = "TPUPROF_PREFLIGHT"
# A mesh of this shape is made in place of the script's own, where both have as many axes and devices: `2,2`.
MESH_VARIABLE = "TPUPROF_PREFLIGHT_MESH"


def note(kind: str, entry: dict[str, Any]) -> None:
    """Append a note; one that is there already is not written again."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return
    path, line = Path(folder) / NOTES, json.dumps({"kind": kind, **entry}, default=str)
    if not path.is_file() or line not in path.read_text("utf-8").splitlines():
        with path.open("a", encoding="utf-8") as out:
            out.write(f"{line}\n")


def read_notes(folder: Path) -> list[dict[str, Any]]:
    """All notes of a trace, in the order in which they were made; none where there are none."""
    path = folder / NOTES
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.is_file() else []


def after_argparse(_name: str) -> None:
    """Note the options of each command line that `argparse` reads, with the values they got."""
    import argparse

    plain = argparse.ArgumentParser.parse_known_args

    def parse_known_args(self: Any, *args: Any, **options: Any) -> Any:
        found = plain(self, *args, **options)
        # A parser's own use of it (subcommands) and a failure here must not end the script.
        try:
            for action in self._actions:
                _note_option(action, found[0])
        except Exception as error:
            note("failed", {"why": repr(error)})
        return found

    argparse.ArgumentParser.parse_known_args = parse_known_args  # type: ignore[method-assign]


def _note_option(action: Any, values: Any) -> None:
    names = [each for each in action.option_strings if each.startswith("--")]
    if not names or not hasattr(values, action.dest):
        return
    value = getattr(values, action.dest)
    if value is not None and not isinstance(value, (bool, int, float, str)):
        return
    entry = {
        "name": names[0].removeprefix("--"), "value": value, "switch": action.nargs == 0,
        "choices": [each for each in action.choices or () if isinstance(each, (str, int, float))],
    }  # fmt: skip
    note("option", entry)


def wanted_mesh(shape: tuple[int, ...], axes: tuple[str, ...]) -> tuple[int, ...]:
    """The shape that a mesh gets: the script's own, or the one that is tried where it has as many axes and devices."""
    note("mesh", {"shape": list(shape), "axes": [str(each) for each in axes]})
    text = os.environ.get(MESH_VARIABLE, "")
    asked = tuple(int(part) for part in text.split(",")) if text else ()
    return asked if len(asked) == len(shape) and math.prod(asked) == math.prod(shape) else shape


def watch_torch_xla_meshes() -> None:
    """Note the meshes of torch_xla's SPMD, and try another shape where one is asked for."""
    from torch_xla.distributed.spmd import xla_sharding

    plain = xla_sharding.Mesh.__init__

    def init(self: Any, device_ids: Any, mesh_shape: Any, axis_names: Any = None) -> None:
        shape = wanted_mesh(tuple(int(each) for each in mesh_shape), tuple(axis_names or ()))
        plain(self, device_ids, shape, axis_names)

    xla_sharding.Mesh.__init__ = init


def watch_jax_meshes() -> None:
    """The same for `jax.sharding.Mesh` and all that makes one (`jax.make_mesh`)."""
    import jax
    import numpy as np

    plain: Callable[..., Any] = jax.sharding.Mesh.__new__

    def new(cls: Any, devices: Any, axis_names: Any, *args: Any, **options: Any) -> Any:
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        devices = np.asarray(devices)
        shape = wanted_mesh(devices.shape, names)
        return plain(cls, devices.reshape(shape), axis_names, *args, **options)

    jax.sharding.Mesh.__new__ = new
