"""What a rule is, and what it may say.

A rule is a module `rules/<category>/<id with underscores>/rule.py`: its docstring is its page, its `check` looks at
signals and returns an `Outcome`. A signal that is missing ends the rule as unavailable. The programs beside it are what
its page advises (programs.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import field
from pathlib import Path

from tpuprof.records import record
from tpuprof.report.schema import Evidence, Savings
from tpuprof.rules.docstring import Page
from tpuprof.rules.programs import Advice
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change

FAILED = "failed"
PASSED = "passed"
NOT_APPLICABLE = "not_applicable"
UNAVAILABLE = "unavailable"
ERROR = "error"
STATUSES = (FAILED, PASSED, NOT_APPLICABLE, UNAVAILABLE, ERROR)

# What follows a rule's subject where it neither failed nor passed.
_UNCHECKED = {
    NOT_APPLICABLE: "does not apply",
    UNAVAILABLE: "not checked",
    ERROR: "the check itself failed",
}

PREVIEW = "preview"
STABLE = "stable"


@record(frozen=True)
class Price:
    """Two replays that bound what a fix saves: what it gains at least, and at most.

    Where no replay can tell, `savings` (ms per step) is what was measured or bounds it, with its method; `most` then
    only says which time that is. `ops` is the time (ms, over the capture) that a fix takes of each op, by program and
    name, where it is about certain ops. `ceiling` is a bound of the saving by other evidence (share of step time):
    where a replay gains little and the bound is worth naming, the two disagree, and the price is the range between
    them. `sure` is what other evidence leaves sure of what is gained at least (share of step time), 1 where it takes
    nothing away. `hidden` is time of the same cause behind device work (share of step time): where the device idles
    later for other work of the host, that begins earlier without it, so a replay may save as much more than the
    finding's share; so is time that may have this cause. `of_step` is how long a step takes to which the price belongs,
    over a captured one (ratio): less than 1 where what is priced is rarer outside of the capture. `judged_of` is the
    share of the step that a price is little or much of: less than 1 where compiles take the rest, which do not make
    other time a little thing. `frees_cpus`: what goes is work of the host and programs of its own beside the device's
    work, so that a device that is this machine's CPU may become faster. `in_all` is all the time of what goes, also
    beside the device's work (share of step time), where both take CPUs from each other: as much may be saved; `exposed`
    is the time of it in which such a device idles: what a replay saves beyond that needs host and device to be as fast
    side by side as alone (1 where that is no question). `note` says what the price leaves out. `decides` says that
    there is no finding without a price: only the replay tells whether the time costs anything.
    """

    least: Change | None = None
    most: Change | None = None
    savings: Savings | None = None
    ops: dict[tuple[str, str], float] = field(default_factory=dict)
    ceiling: float | None = None
    sure: float = 1.0
    hidden: float = 0.0
    of_step: float = 1.0
    judged_of: float = 1.0
    frees_cpus: bool = False
    in_all: float = 0.0
    exposed: float = 1.0
    note: str = ""
    decides: bool = False


@record(frozen=True)
class Outcome:
    """What a rule found. `share` is the share of step time at stake before it is priced; `reason` says why not.

    `title` replaces the rule's own where the figures belong into it. `cases` names the causes that were seen, where the
    rule's advice has paragraphs for certain ones. `at_stake` ends the title with that share, where no price is far
    below it. `specific` tells that a rule which else names a symptom names a cause this time.
    """

    status: str
    share: float = 0.0
    title: str = ""
    evidence: list[Evidence] = field(default_factory=list)
    price: Price | None = None
    reason: str = ""
    confidence: str = "medium"
    cases: frozenset[str] = frozenset()
    at_stake: str = ""
    specific: bool = False


@record(frozen=True)
class Rule:
    """One rule. `good` and `bad` are titles of a passed and a failed finding; `broad` ones name a symptom.

    `about` is its subject in neutral words: a rule that was not checked must say neither that all is well nor that it
    is not. `good` must be true wherever the rule passes, also where the fault is there but too small to matter.

    A rule that is `torch_only` is about PyTorch/XLA itself, and does not apply to other frameworks. The numbers of
    a rule `of_one_host` are those of one host or device, the others' are means over all hosts.

    A broad rule ranks behind a specific one that saves much of the same time, since that says more of what to do. So
    does the rule that another one `narrows`, by id: the other one is about some of it, and says what to do.

    `reads` names the signals that its check may ask for; what its prices are computed from is not among them.
    """

    id: str
    category: str
    status: str
    good: str
    bad: str
    broad: bool
    page: Page
    check: Callable[[Signals], Outcome]
    module: str
    about: str = ""
    torch_only: bool = False
    of_one_host: bool = False
    narrows: str = ""
    reads: tuple[str, ...] = ()

    @property
    def advice(self) -> dict[str, Advice]:
        """The programs that its page advises, by framework."""
        return self.page.advice

    @property
    def text(self) -> str:
        """The whole page: its text, and the signals that the rule reads."""
        return f"{self.page.text}\n\n## Signals\n\nIt reads {', '.join(f'`{name}`' for name in self.reads)}."

    def title(self, status: str) -> str:
        """The title of a finding with this status, where the check gives none."""
        titles = {FAILED: self.bad, PASSED: self.good}
        about = self.about or self.id
        return titles.get(status) or f"{about[:1].upper()}{about[1:]}: {_UNCHECKED.get(status, status)}"

    @property
    def doc(self) -> str:
        """Where the rule's page is in the documentation."""
        return f"docs/rules/{self.id}.md"


def rule(
    *,
    about: str,
    good: str,
    bad: str,
    reads: tuple[str, ...],
    status: str = PREVIEW,
    broad: bool = False,
    torch_only: bool = False,
    of_one_host: bool = False,
    narrows: str = "",
) -> Callable[[Callable[[Signals], Outcome]], Rule]:
    """Make a module's `check` its rule; the id and category come from where the module is."""

    def wrap(check: Callable[[Signals], Outcome]) -> Rule:
        module = sys.modules[check.__module__]
        *_, category, name, _ = check.__module__.split(".")
        return Rule(
            id=name.replace("_", "-"),
            category=category,
            status=status,
            good=good,
            bad=bad,
            broad=broad,
            page=Page(module.__doc__ or "", name.replace("_", "-"), Path(module.__file__ or "").parent),
            check=check,
            module=check.__module__,
            about=about,
            torch_only=torch_only,
            of_one_host=of_one_host,
            narrows=narrows,
            reads=reads,
        )

    return wrap


def failed(
    share: float,
    evidence: list[Evidence],
    *,
    price: Price | None = None,
    title: str = "",
    reason: str = "",
    confidence: str = "medium",
    cases: frozenset[str] = frozenset(),
    at_stake: str = "",
    specific: bool = False,
) -> Outcome:
    """The fault is there. `reason` says why there is no price, where there is none."""
    share = min(max(share, 0.0), 1.0)
    return Outcome(FAILED, share, title, evidence, price, reason, confidence, cases, at_stake, specific)


def passed(evidence: list[Evidence] | None = None, *, title: str = "", reason: str = "") -> Outcome:
    """The fault is not there, or too small to be worth a finding."""
    return Outcome(PASSED, title=title, evidence=evidence or [], reason=reason)


def not_applicable(reason: str, evidence: list[Evidence] | None = None) -> Outcome:
    """The run does not do what the rule is about."""
    return Outcome(NOT_APPLICABLE, evidence=evidence or [], reason=reason)


def not_checked(reason: str, evidence: list[Evidence] | None = None) -> Outcome:
    """The run does not tell enough for the rule, but something of it is worth showing."""
    return Outcome(UNAVAILABLE, evidence=evidence or [], reason=reason)


def counterfactual(
    most: Change,
    least: Change | None = None,
    *,
    ops: dict[tuple[str, str], float] | None = None,
    ceiling: float | None = None,
    sure: float = 1.0,
    of_step: float = 1.0,
    judged_of: float = 1.0,
) -> Price:
    """A price by replay: with the cause gone (`most`), and with as little gained as may be (`least`)."""
    return Price(
        least or most,
        most,
        ops=ops or {},
        ceiling=ceiling,
        sure=sure,
        of_step=of_step,
        judged_of=judged_of,
    )
