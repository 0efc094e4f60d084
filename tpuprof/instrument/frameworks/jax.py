"""JAX: events by its own TraceAnnotation, compiles by its own monitoring, reads by the methods of its arrays."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from tpuprof.instrument.frameworks.base import (
    CACHE_HITS,
    CACHE_LOADS,
    CACHE_MISSES,
    Framework,
    Profiler,
    loaded,
)
from tpuprof.instrument.frameworks.jax_explains import Explanations
from tpuprof.instrument.frameworks.jax_functions import definition
from tpuprof.instrument.frameworks.kept_programs import KeptPrograms
from tpuprof.instrument.frameworks.under_way import COMPILED as _COMPILED
from tpuprof.instrument.frameworks.under_way import LOWERED as _LOWERED
from tpuprof.instrument.frameworks.under_way import UnderWay
from tpuprof.instrument.spans import close_span, open_span
from tpuprof.instrument.stack_frames import user_frames
from tpuprof.instrument.stack_text import safe
from tpuprof.instrument.state import STATE, note_failure
from tpuprof.own_events import COMPILED

# An event right after a compile: which Python frames led to it.
_BRIDGE = "jax._src.xla_bridge"
# The persistent compilation cache: a duration where it answered, an event where it did not.
_DURATION = "event_duration"
_CACHE_HIT = "/jax/compilation_cache/cache_retrieval_time_sec"
_CACHE_MISS = "/jax/compilation_cache/cache_misses"
# Compiles kept for whoever asks next (compiles): between two steps there are far fewer, and a server may ask never.
MAX_FOUND = 10_000


class Jax(Framework):
    """JAX in this process. Nothing here starts its runtime."""

    name = "jax"
    tells_compiles = True

    def __init__(self) -> None:
        super().__init__()
        # Programs lowered since the last compile: where JAX does not tell that a compile begins, it begins then.
        self._count = self._lowered = 0
        self._under_way = UnderWay()
        # Answers of the persistent cache, by torch_xla's names for them.
        self._cache = dict.fromkeys((CACHE_HITS, CACHE_LOADS, CACHE_MISSES), 0)
        self._found: deque[tuple[int, float, list[str]]] = deque(maxlen=MAX_FOUND)
        # Reentrant: a handler of a signal may ask while the same thread notes a compile.
        self._lock = threading.RLock()
        self._listening = False
        self._explanations = Explanations()
        self.kept = KeptPrograms()

    @property
    def profiler(self) -> Profiler:
        """JAX's TraceAnnotation, which is a TraceMe."""
        profiler = sys.modules["jax"].profiler
        return Profiler(profiler.TraceAnnotation, profiler.start_server)

    def initialized(self) -> bool:
        """Whether a backend was made."""
        bridge = loaded(_BRIDGE)
        return bool(getattr(bridge, "_backends", None))

    def place(self) -> tuple[int, int]:
        """Process index and count of the runtime."""
        if not self.initialized():
            return 0, 1
        jax = sys.modules["jax"]
        return int(jax.process_index()), int(jax.process_count())

    def device(self) -> dict[str, Any] | None:
        """Platform and number of devices."""
        if not self.initialized():
            return None
        jax = sys.modules["jax"]
        return {
            "type": str(jax.default_backend()).upper(),
            "global_count": int(jax.device_count()),
            "local_count": int(jax.local_device_count()),
        }

    def compiles(self) -> int:
        """Programs that the backend compiled."""
        return self._count

    def compiling(self) -> bool:
        """Whether a program is traced for the first time, lowered or compiled."""
        return self._under_way.now() if self._under_way.heard else self._lowered > 0

    def cache_path(self) -> str:
        """Folder of the persistent compilation cache, empty where none is on."""
        config = getattr(loaded("jax"), "config", None)
        if not getattr(config, "jax_enable_compilation_cache", True):
            return ""
        return str(getattr(config, "jax_compilation_cache_dir", None) or "")

    def drain_compiles(self) -> list[tuple[int, float, list[str]]]:
        """Compiles since the last call, each with its seconds and frames."""
        with self._lock:
            found = list(self._found)
            self._found.clear()
        return found

    def install(self) -> None:
        """Listen to compiles, to the persistent cache, and to explanations where the program asks JAX for them."""
        self._explanations.install()
        monitoring = getattr(loaded("jax"), "monitoring", None)
        if monitoring is None or self._listening:
            return
        for kind, listener in self._listeners().items():
            name = f"register_{kind}{'_secs' if kind == _DURATION else ''}_listener"
            register = getattr(monitoring, name, None)
            if register is not None:
                register(listener)
                self._listening = True

    def remove(self) -> None:
        """Listen no more. JAX's way to take one listener away has no public name yet."""
        self._explanations.remove()
        module = loaded("jax._src.monitoring")
        if not self._listening:
            return
        for kind, listener in self._listeners().items():
            take = getattr(module, f"_unregister_{kind}_listener_by_callback", None)
            if take is not None:
                take(listener)
                self._listening = False

    def _listeners(self) -> dict[str, Callable[..., None]]:
        return {_DURATION: self._heard, "event": self._missed, "scalar": self._begun}

    def _begun(self, event: str, _time: float, **facts: Any) -> None:
        try:
            self._under_way.begun(event, str(facts.get("fun_name", "")))
        except Exception as error:  # JAX would hand it to the program
            note_failure("listening to compiles", error)

    def _heard(self, event: str, seconds: float, **_facts: Any) -> None:
        try:
            self._under_way.ended(event)
            self._note(event, seconds)
        except Exception as error:  # JAX would hand it to the program
            note_failure("listening to compiles", error)

    def _missed(self, event: str, **_facts: Any) -> None:
        if event == _CACHE_MISS:
            self._cache[CACHE_MISSES] += 1

    def _xla_counter_value(self, name: str) -> int:
        return self._cache[name] if name in self._cache else super()._xla_counter_value(name)

    def _note(self, event: str, seconds: float) -> None:
        if event == _LOWERED:
            self._lowered += 1
        if event == _CACHE_HIT:
            self._cache[CACHE_HITS] += 1
            self._cache[CACHE_LOADS] += 1
        if event != _COMPILED:
            return
        self._lowered = 0
        self._count += 1
        self.kept.look()
        self.compiled_in = threading.get_ident()
        frames = user_frames()
        with self._lock:
            self._found.append((1, float(seconds), frames))
        if STATE.armed:
            text = safe(";".join(frames))
            close_span(open_span(COMPILED, "compiled", frames=text, defined=safe(definition())))
        for call in tuple(self.when_compiled):
            call(float(seconds))
