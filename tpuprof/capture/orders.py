"""What `tpuprof capture` wants of the processes it starts: a file in a private folder, named by one variable."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpuprof.capture.recording import Plan

# Holds the private folder's path. Processes that the program starts inherit it.
VARIABLE = "TPUPROF_CAPTURE"
_FILE = "orders.json"


@dataclass(frozen=True)
class Orders:
    """What the parent wants: where to, how much, and under what name.

    `session` names the class that a hooked process makes, as `module:class`; `watch` are the options of a watched one.
    """

    run: str
    name: str
    warmup: int
    steps: int
    patience: int
    hlo_debug: bool
    source_lines: bool = False
    session: str = "tpuprof.capture.session:Session"
    watch: dict[str, Any] = field(default_factory=dict)
    # Whether so many steps were asked for; else more are recorded where they are short.
    steps_stated: bool = True
    # Which of how many hosts this is, where several are to record the same steps.
    member: int = 0
    members: int = 1
    # How the list of a pod's hosts names this one, empty outside a pod.
    listed_as: str = ""
    # The command that `tpuprof capture` ran, keys left out: a launcher's where one starts the program.
    command: list[str] = field(default_factory=list)

    @property
    def plan(self) -> Plan:
        """What a process of these orders records. Hosts that record together record the same steps."""
        from tpuprof.capture.controller import LEAST_SECONDS
        from tpuprof.capture.recording import Plan

        alone = self.members == 1
        seconds = 0.0 if self.steps_stated or not alone else LEAST_SECONDS
        return Plan(self.warmup, self.steps, patience=self.patience, early=alone, seconds=seconds)

    def write(self, folder: Path) -> None:
        """Put the orders where the hook looks for them."""
        (folder / _FILE).write_text(json.dumps(asdict(self)), "utf-8")

    @classmethod
    def read(cls, folder: str) -> Orders:
        """The orders in a private folder. Raises `OSError` once the folder is gone."""
        return cls(**json.loads((Path(folder) / _FILE).read_text("utf-8")))
