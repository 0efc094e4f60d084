"""Section of the Report about many hosts: which are alike, who is late, and when.

Times are milliseconds, per step where a name says so; shares lie between 0 and 1.
"""

from __future__ import annotations

from dataclasses import field

from tpuprof.records import record


@record(frozen=True)
class HostGroupRow:
    """Hosts with the same verdict and program: how many, the first of them, their median step and mean parts."""

    hosts: int
    names: list[str]
    bound: str
    program: str
    text: str
    median_ms: float | None
    parts_ms: dict[str, float]


@record(frozen=True)
class StragglerRow:
    """A host that is late: its lag behind the middle host, and in how many steps it is.

    `part` is the part of the breakdown that it is longer in (empty where no part explains the lag), `chip` the device
    that holds its host up (empty where its devices come together). `method` is collectives or step times.
    """

    host: str
    method: str
    lag_ms_per_step: float
    share: float
    steps: int
    part: str = ""
    excess_ms_per_step: float | None = None
    chip: str = ""


@record(frozen=True)
class RuleHostsRow:
    """A rule that failed, on how many hosts, and the first of them."""

    rule: str
    hosts: int
    names: list[str]


@record(frozen=True)
class LineHostsRow:
    """A line (`file:line`, empty: unknown) that a rule found at fault, on how many hosts, and the first of them."""

    source: str
    hosts: int
    names: list[str]


@record(frozen=True)
class HostPriceRow:
    """What the fix of a rule would save on one host, as the `Savings` of that host's own finding say it."""

    host: str
    low: float
    high: float
    method: str
    per: str
    start_low_s: float | None = None
    start_high_s: float | None = None


@record(frozen=True)
class FindingHosts:
    """On which hosts of a pod a rule failed: `hosts` of the `of` that were analyzed, `names` the first of them.

    `shown` is the host whose words, evidence and price the finding has. `others` are the first hosts on which the rule
    did not fail, where they are the fewer ones; `undecided` hosts could not tell. `lines` says which line it is on
    how many hosts. `prices` are those of the hosts that save least, the middle and most, none of them a mean.
    """

    hosts: int
    of: int
    names: list[str]
    shown: str
    others: list[str] = field(default_factory=list)
    undecided: int = 0
    lines: list[LineHostsRow] = field(default_factory=list)
    prices: list[HostPriceRow] = field(default_factory=list)


@record(frozen=True)
class LinePartRow:
    """What a line of the user's costs in a part of the breakdown: on how many hosts samples saw it, and the first ones.

    Times are per step of `host`, the one that it costs most: `exposed_ms_per_step` with the device idle, the rest
    hidden.
    """

    part: str
    source: str
    call: str
    hosts: int
    names: list[str]
    host: str
    exposed_ms_per_step: float
    hidden_ms_per_step: float


@record(frozen=True)
class HeatMap:
    """Lateness of each host behind the middle one (ms): a row per host, a column per stretch of steps.

    `steps` is the first step of each column. A cell is the latest of its steps, so that one late step stays visible.
    """

    hosts: list[str] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    steps_per_column: int = 1
    late_ms: list[list[float]] = field(default_factory=list)


@record(frozen=True)
class Pod:
    """Many hosts in one report.

    `hosts` were found and `analyzed` could be read; `failed` says why others could not. `sampled` says what analyzing
    a part of them may miss, empty where all were. `shown` is the middle host of the largest group of like ones: words,
    evidence and price of a rule that failed there are its. `skew_ms` is the median over steps of how much later the
    last host is than the first. `not_compared` are hosts with other steps than the rest. `lines` says on which hosts
    the sampled lines of `host_stacks` are, those that cost one host most first.
    """

    hosts: int
    analyzed: int
    shown: str
    failed: dict[str, str] = field(default_factory=dict)
    sampled: str = ""
    groups: list[HostGroupRow] = field(default_factory=list)
    stragglers: list[StragglerRow] = field(default_factory=list)
    rules: list[RuleHostsRow] = field(default_factory=list)
    skew_ms: float | None = None
    not_compared: list[str] = field(default_factory=list)
    heat_map: HeatMap = field(default_factory=HeatMap)
    notes: list[str] = field(default_factory=list)
    lines: list[LinePartRow] = field(default_factory=list)
