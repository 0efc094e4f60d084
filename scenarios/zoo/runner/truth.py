"""What is true of a program of the zoo, read from its `truth.toml`.

Nothing in it comes from tpuprof: a truth is known from the program's own clock, from a cure that is measured in
turn, or from how the program is built.
"""

from __future__ import annotations

import importlib.util
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Cure:
    """A change of the program that removes one cost, and how much of the step it must (or may) save.

    `replace` and `by` are text of `file`; `environment` is set for the changed run. Shares are of the step time.
    """

    what: str
    replace: str = ""
    by: str = ""
    file: str = "train.py"
    environment: Mapping[str, str] = field(default_factory=dict)
    saves_at_least: float | None = None
    saves_at_most: float | None = None

    def holds(self, saving: float) -> bool:
        """Whether a measured saving (a share of the step) is what the truth states."""
        enough = self.saves_at_least is None or saving >= self.saves_at_least
        return enough and (self.saves_at_most is None or saving <= self.saves_at_most)


@dataclass(frozen=True)
class Truth:
    """One program: how it is started, and which answers are right.

    `verdicts` are the accepted words of the verdict; `names` are regular expressions of which the verdict's sentence
    or the first finding must match one; `first` are the accepted first findings, where "" means that nothing is
    wrong. `undecided` lists the candidates of which an honest "undecided" must name one. `cuts_per_step` is 0 where
    the number varies. `says` is what tpuprof must say where a program cannot be captured; of a program that can be, it
    stands for installations that do not allow it.
    """

    name: str
    what: str
    why: str
    verdicts: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    first: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    steps: int = 40
    cuts_per_step: float = 1
    captured: bool = True
    says: str = ""
    status: int = 0
    command: list[str] = field(default_factory=lambda: ["python", "train.py"])
    capture: list[str] = field(default_factory=list)
    environment: Mapping[str, str] = field(default_factory=dict)
    needs: list[str] = field(default_factory=list)
    fast: bool = False
    # Where True, also bare runs are processes of their own: the program does not import torch_xla, or ends by a signal.
    cold: bool = False
    # Text of the program whose number is the size of its data, where no number of steps is stated in it.
    sized_by: str = ""
    # Folder into which the program profiles itself, as JAX programs do; it is then run once, and not captured.
    own_profile: str = ""
    # Where False, losses are not compared: several processes print in any order.
    ordered: bool = True
    # Where False, the program's own clock is not compared with the steps: its steps are of very different lengths.
    even: bool = True
    cures: list[Cure] = field(default_factory=list)

    @property
    def missing(self) -> list[str]:
        """Libraries that the program needs and that are not installed."""
        return [each for each in self.needs if importlib.util.find_spec(each) is None]


def load(name: str) -> Truth:
    """The truth of one program; raises TypeError for a key that does not exist."""
    told = tomllib.loads((HOME / name / "truth.toml").read_text("utf-8"))
    cures = [Cure(**each) for each in told.pop("cures", [])]
    return Truth(name=name, cures=cures, **told)


def names() -> list[str]:
    """All programs of the zoo."""
    return sorted(path.parent.name for path in HOME.glob("*/truth.toml"))
