"""Keeps the values that were used last."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Recent:
    """Values by run and signature; the least recently used leave first."""

    most: int
    values: OrderedDict[str, tuple[Any, Any]] = field(default_factory=OrderedDict)

    def get(self, name: str, mark: Any) -> Any:
        """The value of a run with that signature, None where there is none."""
        held = self.values.get(name)
        if held is None or held[0] != mark:
            return None
        self.values.move_to_end(name)
        return held[1]

    def put(self, name: str, mark: Any, value: Any) -> None:
        """Keep a value; the one used longest ago goes."""
        self.values[name] = (mark, value)
        self.values.move_to_end(name)
        while len(self.values) > self.most:
            self.values.popitem(last=False)
