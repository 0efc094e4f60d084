"""Finds the line of code that calls an op which torch_xla runs on the CPU.

torch_xla counts such fallbacks by op and tells no more. Where a step before the capture shows some, one further
step is watched through a dispatch mode, which sees every op with its Python stack; captured steps never are.
"""

from __future__ import annotations

from typing import Any

from tpuprof.capture.telemetry import FALLBACK_PREFIX
from tpuprof.instrument.stack_frames import source_of, user_frames
from tpuprof.instrument.state import note_failure

# torch_xla counts reading one value back among the fallbacks; those reads are counted elsewhere.
_VALUE_READ = "aten::_local_scalar_dense"
# Ops that torch_xla expands into `nonzero` below the dispatch mode, where an index is a mask.
_NONZERO = "aten::nonzero"
_INDEXES = frozenset({"index", "index_put", "index_put_", "_index_put_impl_"})
# Steps watched at most: an op that is not met by then is called in few steps only.
MAX_WATCHED = 3


class FallbackFinder:
    """Watches single steps; `sources` has `file:line` by op (`aten::bincount`)."""

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}
        self._mode: Any = None
        self._watched = 0

    def step_ended(self, counters: dict[str, int]) -> None:
        """A step outside the capture ended: stop watching, and watch the next one if ops are still to be found."""
        self.stop()
        wanted = {
            name for name in counters if name.startswith(FALLBACK_PREFIX) and name != _VALUE_READ
        } - self.sources.keys()
        # A mode takes itself off by taking off the topmost. So ours must not lie on one of the program's.
        if not wanted or self._watched >= MAX_WATCHED or self._mode is not None or _mode_stack():
            return
        self._watched += 1
        try:
            self._mode = _watch(wanted, self.sources)
            self._mode.__enter__()
        except Exception as error:
            self._mode = None
            note_failure("looking for the lines of fallbacks", error)

    def stop(self) -> None:
        """Watch no longer. Under a mode that the program entered since, ours stays, idle, until a later call."""
        mode = self._mode
        if mode is None:
            return
        mode.wanted = set()
        stack = _mode_stack()
        if not any(each is mode for each in stack):
            self._mode = None
        elif stack[-1] is mode:
            self._mode = None
            mode.__exit__(None, None, None)


def _mode_stack() -> list[Any]:
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    return list(_get_current_dispatch_mode_stack())


def _by_mask(args: Any) -> bool:
    """Whether a tensor is indexed by a mask: `x[mask]`, `x[mask] = v`."""
    import torch

    indices = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else ()
    return any(getattr(each, "dtype", None) in (torch.bool, torch.uint8) for each in indices)


def _watch(wanted: set[str], sources: dict[str, str]) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):  # type: ignore[misc,unused-ignore]  # torch is not here when types are checked
        """Notes the user's line of each wanted op; every op runs as it would."""

        def __init__(self) -> None:
            super().__init__()
            self.wanted = set(wanted)

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if self.wanted:
                self._note(func, args)
            return func(*args, **(kwargs or {}))

        def _note(self, func: Any, args: Any) -> None:
            try:
                called = func.__name__.partition(".")[0]
                name = _NONZERO if called in _INDEXES and _by_mask(args) else FALLBACK_PREFIX + called
                if name in self.wanted:
                    self.wanted.discard(name)
                    # On autograd's own threads no frame of the program is below this one.
                    frames = user_frames()
                    sources[name] = source_of(frames[0]) if frames else ""
            except Exception as error:
                self.wanted = set()
                note_failure("looking for the line of a fallback", error)

    return Watch()
