"""Puts JAX's own explanations of cache misses on the timeline, where the program has `jax_explain_cache_misses` on."""

from __future__ import annotations

import logging

from tpuprof.instrument.spans import close_span, open_span
from tpuprof.instrument.stack_text import safe
from tpuprof.instrument.state import STATE, note_failure
from tpuprof.own_events import CACHE_MISS

# How such a message begins; JAX logs it as a warning when it has traced a function again.
_BEGINS = "TRACING CACHE MISS"
# Longer messages are cut at their front, since the newest of several keys comes last (characters).
MAX_TEXT = 1500
_LOGGER = "jax"


class Explanations(logging.Handler):
    """Listens to JAX's logger between `install` and `remove`. It writes nothing, and stops nothing."""

    def install(self) -> None:
        """Listen. Doing it twice is harmless."""
        logging.getLogger(_LOGGER).addHandler(self)

    def remove(self) -> None:
        """Listen no more."""
        logging.getLogger(_LOGGER).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Put an explanation on the timeline of the thread that traced."""
        try:
            self._print_as_before(record)
            if not STATE.armed or not str(record.msg).startswith(_BEGINS):
                return
            text = record.getMessage()
            head, _, body = text.partition("\n")
            close_span(open_span(CACHE_MISS, "cache_miss", text=safe(f"{head}\n{body[-MAX_TEXT:]}")))
        except Exception as error:  # logging would write it into the program's output
            note_failure("listening to explanations", error)

    def _print_as_before(self, record: logging.LogRecord) -> None:
        """Where no other handler listens, Python prints warnings by its last resort: because of us it would not."""
        last = logging.lastResort
        if last is not None and record.levelno >= last.level and not self._others(record.name):
            last.handle(record)

    def _others(self, name: str) -> bool:
        """Whether another handler gets what this logger logs."""
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            if any(each is not self for each in logger.handlers):
                return True
            logger = logger.parent if logger.propagate else None
        return False
