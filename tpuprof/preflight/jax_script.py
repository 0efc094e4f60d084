"""Takes the programs that a JAX script would run, in place of running them. Runs inside the script's process.

`jax.jit` returns a stand-in: a call with real arrays is lowered for a TPU and recorded, and its results are made up.
What goes in as state and comes out as state is the same arrays; all other values are ones. Calls inside another trace,
and every call in a program of torch_xla, go through unchanged.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import types
import weakref
from pathlib import Path
from typing import Any

from tpuprof.instrument.state import pass_on
from tpuprof.preflight.iteration import Event, Search, event_entry
from tpuprof.preflight.manifest import DONE, write_manifest

# In the scopes of an op of a backward pass.
_BACKWARD = b"transpose(jvp"


def install(folder: str) -> None:
    """Have `jax.jit` give stand-ins from now on."""
    import jax

    # One partitioner for all versions: its shardings are kept in HLO.
    jax.config.update("jax_use_shardy_partitioner", False)
    _leave_out_of_source_lines()
    recorder = Recorder(Path(folder))
    plain = jax.jit

    def jit(*args: Any, **options: Any) -> Any:
        if not args:
            return lambda function: jit(function, **options)
        return StandIn(plain(*args, **options), recorder)

    jax.jit = jit


def _leave_out_of_source_lines() -> None:
    """Have JAX name the program's own lines as the sources of ops, and not the stand-in that calls the function."""
    try:
        from jax._src import source_info_util

        source_info_util.register_exclusion(__file__)
    except (ImportError, AttributeError) as error:  # another version's
        pass_on(error)


class StandIn:
    """A jitted function whose calls are recorded."""

    def __init__(self, real: Any, recorder: Recorder) -> None:
        self._real, self._recorder = real, recorder
        self.__wrapped__ = getattr(real, "__wrapped__", real)
        self.__name__ = getattr(real, "__name__", "function")
        self.__doc__ = getattr(real, "__doc__", None)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Record the call and make up its results, or pass it on where it is part of another program."""
        # Public until jax 0.6.
        from jax._src.core import trace_state_clean

        if "torch_xla" in sys.modules or not trace_state_clean():
            return self._real(*args, **options)
        return self._recorder.call(self, self._real, args, options)

    def __get__(self, owner: Any, _kind: Any = None) -> Any:
        """A decorated method is bound as any function is."""
        return self if owner is None else types.MethodType(self, owner)

    def __getattr__(self, name: str) -> Any:
        """`lower`, `trace`, `eval_shape` and the rest are the jitted function's own."""
        return getattr(self._real, name)


class Recorder:
    """Programs and the order in which they would have run, in a manifest that is whole after each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.graphs: dict[str, dict[str, Any]] = {}
        self.search = Search()
        self.backward = False
        self.done = False
        self.lock = threading.RLock()
        # By the function itself, and only while it lives: another one may get its id, and it may hold arrays.
        self._known: weakref.WeakKeyDictionary[StandIn, dict[Any, str]] = weakref.WeakKeyDictionary()

    def call(self, function: StandIn, real: Any, args: Any, options: Any) -> Any:
        """One call: its program is taken, its results are made up."""
        import jax

        with self.lock:
            traced = real.trace(*args, **options)
            results, states = _results(args, options, traced.out_info)
            key = self._take(function, traced, args, options)
            self.backward = self.backward or self.graphs[key]["backward"]
            update = bool(states) and self.backward
            self.graphs[key]["updates"] = states if update else 0
            self.search.events.append(Event(key, update))
            self.graphs[key]["count"] += 1
            taken = {id(each) for each in jax.tree_util.tree_leaves((args, options))}
            self.graphs[key]["resident"] = _resident(
                [each for each in jax.live_arrays() if id(each) not in taken]
            )
            self._write()
            if self.search.finished():
                self.done = True
                self._write()
                (self.folder / DONE).touch()
                os._exit(0)
        return results

    def _take(self, function: StandIn, traced: Any, args: Any, options: Any) -> str:
        import jax

        leaves, tree = jax.tree_util.tree_flatten((args, options))
        shapes = tuple(
            (each.shape, str(each.dtype), str(getattr(each, "sharding", "")))
            if hasattr(each, "dtype")
            else (type(each).__name__, repr(each)[:200])
            for each in leaves
        )
        known, call = self._known.setdefault(function, {}), (str(tree), shapes)
        if call in known:
            return known[call]
        program: Any = traced.lower().compiler_ir("hlo")
        data = bytes(program.as_serialized_hlo_module_proto())
        key = hashlib.sha256(data).hexdigest()[:32]
        if key not in self.graphs:
            number = len(self.graphs)
            (self.folder / f"graph-{number}.hlo.pb").write_bytes(data)
            self.graphs[key] = {
                "number": number, "hash": key, "kind": f"jit {function.__name__}", "file": f"graph-{number}.hlo.pb",
                "count": 0, "given": True, "frames": _frames(), "updates": 0, "resident": [],
                "backward": _BACKWARD in data,
            }  # fmt: skip
            print(f"tpuprof-preflight: graph {number} (jit {function.__name__})", file=sys.stderr, flush=True)
        known[call] = key
        return key

    def _write(self) -> None:
        import jax

        from tpuprof.preflight import pallas

        manifest = {
            "graphs": list(self.graphs.values()), "warnings": [],
            "events": [event_entry(each) for each in self.search.events], "optimizers": [], "kernels": pallas.notes,
            "done": self.done, "spmd": jax.device_count() > 1, "unmade_bytes": 0,
            "reads": 0, "devices": jax.device_count(), "versions": {"jax": jax.__version__},
        }  # fmt: skip
        write_manifest(self.folder, manifest)


def _results(args: Any, options: Any, wanted: Any) -> tuple[Any, int]:
    """Made-up results of the wanted shapes, and how many arrays of them are state that went in.

    State is an argument whose whole tree comes out again with the same shapes.
    """
    import jax

    inputs = [_signature(each) for each in (*args, *options.values())]
    states = 0

    def fill(part: Any) -> Any:
        nonlocal states
        own = _signature(part)
        if own[0] is None:
            return jax.tree_util.tree_map(_made_up, part)
        for index, (tree, shapes, leaves) in enumerate(inputs):
            same = tree is not None and own[1] == shapes and _same_places(own[0], tree)
            if same and any(len(shape) for shape, kind in shapes if kind.startswith(_FLOATS)):
                states += len(leaves)
                inputs[index] = (None, (), [])
                return jax.tree_util.tree_unflatten(own[0], leaves)
        if type(part) in (tuple, list):
            return type(part)(fill(each) for each in part)
        if type(part) is dict:
            return {key: fill(each) for key, each in part.items()}
        return jax.tree_util.tree_map(_made_up, part)

    return fill(wanted), states


def _same_places(one: Any, other: Any) -> bool:
    """Whether two trees hold their leaves in the same places; what flax's nnx notes of its objects may differ."""
    import jax

    if one == other:
        return True
    paths = []
    for tree in (one, other):
        filled = jax.tree_util.tree_unflatten(tree, range(tree.num_leaves))
        paths.append([path for path, _ in jax.tree_util.tree_flatten_with_path(filled)[0]])
    return paths[0] == paths[1]


_FLOATS = ("float", "bfloat")


def _signature(part: Any) -> tuple[Any, tuple[tuple[Any, str], ...], list[Any]]:
    import jax

    leaves, tree = jax.tree_util.tree_flatten(part)
    shapes = tuple((tuple(each.shape), str(each.dtype)) for each in leaves if hasattr(each, "dtype"))
    return (tree, shapes, leaves) if len(shapes) == len(leaves) and leaves else (None, (), [])


def _made_up(shape: Any) -> Any:
    """Ones, and False: a loss is 1.0, and a check for NaN passes."""
    import jax
    import jax.numpy as jnp

    if jnp.issubdtype(shape.dtype, jax.dtypes.prng_key):
        return jax.random.split(jax.random.key(0), shape.shape) if shape.shape else jax.random.key(0)
    return jnp.zeros(shape.shape, shape.dtype) if shape.dtype == bool else jnp.ones(shape.shape, shape.dtype)


def _resident(arrays: list[Any]) -> list[dict[str, Any]]:
    """Arrays that no argument of the program is, by shape, with their bytes on one device."""
    entries: dict[Any, dict[str, Any]] = {}
    for each in arrays:
        if not hasattr(each, "sharding") or not each.size:
            continue
        key = (each.shape, str(each.dtype))
        shard = each.sharding.shard_shape(each.shape)
        size = int(each.dtype.itemsize)
        for length in shard:
            size *= length
        entry = entries.setdefault(
            key, {"name": "", "shape": list(each.shape), "dtype": str(each.dtype), "bytes": 0, "count": 0}
        )
        entry["bytes"] += size
        entry["count"] += 1
    return sorted(entries.values(), key=lambda entry: -int(entry["bytes"]))


def _frames(limit: int = 8) -> list[str]:
    """Python frames of the script, innermost first."""
    found: list[str] = []
    frame: Any = sys._getframe(1)
    while frame is not None and len(found) < limit:
        name = frame.f_code.co_filename
        if not any(
            part in name for part in ("site-packages", f"{os.sep}tpuprof{os.sep}", "lib/python", "<frozen")
        ):
            found.append(f"{name}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return found
