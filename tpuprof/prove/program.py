"""A program that `tpuprof prove` runs: its command, and where and with which variables it runs."""

from __future__ import annotations

import os
from dataclasses import field
from pathlib import Path

from tpuprof.records import record


@record(frozen=True)
class Program:
    """A command as it was given, and as its words are run where that differs (`moved`).

    `folder` is where it runs (None: here), `variables` are set beside the present ones. `revision` is the git commit of
    its code, empty where its code is what the files hold now.
    """

    given: list[str]
    moved: list[str] | None = None
    folder: Path | None = None
    variables: dict[str, str] = field(default_factory=dict)
    revision: str = ""

    @property
    def words(self) -> list[str]:
        """The command as it is run."""
        return self.given if self.moved is None else self.moved

    @property
    def environment(self) -> dict[str, str]:
        """All variables of its process."""
        return {**os.environ, **self.variables}
