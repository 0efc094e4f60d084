"""Shows a watched job as it goes: throughput, goodput, hosts by how they keep up, anomalies with their verdicts.

It reads small files that the processes replace every few seconds, and the ledger of one process; nothing has to listen.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuprof.errors import Code, TpuprofError
from tpuprof.goodput.account import Account, account
from tpuprof.goodput.attempts import attempt_of
from tpuprof.goodput.jobs import duration
from tpuprof.goodput.vocabulary import KINDS
from tpuprof.ledger.reader import read_ledger
from tpuprof.run_folder import CAPTURES, LEDGERS, STATUS
from tpuprof.shown_text import printable
from tpuprof.units import NS_PER_S
from tpuprof.watch.analysis import read_verdict
from tpuprof.watch.status import FRESH_SECONDS, read_status
from tpuprof.watch.tpu_metrics import NAMES

if TYPE_CHECKING:
    from rich.console import Console, Group

REFRESH_SECONDS = 2.0
# Hosts and anomalies that are shown (count).
MOST_HOSTS, MOST_ANOMALIES = 8, 6


@dataclass(frozen=True)
class Host:
    """One process. `relative` is the median host's own work by this one's, `own_best` its own best by its own now.

    Both are shares: 1 keeps up, below 0.8 is slow; None where unknown. `silent_seconds` is the age of its last sign.
    """

    name: str
    rank: int | None
    step: int | None
    step_seconds: float | None
    relative: float | None
    own_best: float | None
    silent_seconds: float
    ended: str


@dataclass
class JobState:
    """One job as its processes describe it. `percent` has means over processes, `unavailable` why one is not there."""

    job: str
    hosts: list[Host]
    step: int | None = None
    step_seconds: float | None = None
    samples_per_second: float | None = None
    account: Account | None = None
    anomalies: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    percent: dict[str, float] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)

    @property
    def running(self) -> list[Host]:
        """Processes that are alive."""
        return [each for each in self.hosts if not each.ended and each.silent_seconds < FRESH_SECONDS]

    @property
    def silent(self) -> list[Host]:
        """Processes that said no goodbye and give no sign of life."""
        return [each for each in self.hosts if not each.ended and each.silent_seconds >= FRESH_SECONDS]

    def slowest(self) -> list[Host]:
        """Living processes, slowest first."""
        known = [each for each in self.running if each.relative is not None]
        return sorted(known, key=lambda each: each.relative or 0.0)


def read_jobs(folder: Path, now: float | None = None) -> list[JobState]:
    """The state of every job in a folder, the one with the newest sign of life first. Raises `TpuprofError`."""
    paths = sorted((folder / STATUS).glob("*.json")) if (folder / STATUS).is_dir() else []
    if not paths:
        code = Code.NO_LEDGER if folder.exists() else Code.NOT_FOUND
        raise TpuprofError(
            code,
            f"{folder}: no watched job is in it.",
            "Start one with `tpuprof watch -o FOLDER -- python train.py`.",
        )
    by_job: dict[str, list[dict[str, Any]]] = {}
    for path in paths:
        facts = read_status(path)
        if facts:
            by_job.setdefault(str(facts.get("job")), []).append(facts | {"name": path.stem})
    moment = time.time() if now is None else now
    jobs = [
        (max(_number(each, "wall_seconds") or 0 for each in facts), job, facts)
        for job, facts in by_job.items()
    ]
    found = [
        _state(folder, job, facts, moment)
        for _, job, facts in sorted(jobs, reverse=True, key=lambda each: each[0])
    ]
    verdicts = [read_verdict(each) for each in sorted((folder / CAPTURES).glob("*"))] if found else []
    if found:
        found[0].anomalies = _with_verdicts(found[0].anomalies, verdicts)
    return found


def _state(folder: Path, job: str, facts: list[dict[str, Any]], now: float) -> JobState:
    newest = _newest_by_rank(facts)
    # What a process said before it fell silent says nothing of now.
    fresh = [each for each in newest if not each.get("ended") and _silent_seconds(each, now) < FRESH_SECONDS]
    owns = [own for each in fresh if (own := _number(each, "own_work_seconds"))]
    usual = statistics.median_low(owns) if owns else None
    state = JobState(job, [_host(each, usual, now) for each in newest])
    steps = [int(step) for each in newest if (step := _number(each, "step")) is not None]
    lengths = [length for each in fresh or newest if (length := _number(each, "median_step_seconds"))]
    rates = [rate for each in fresh if (rate := _number(each, "samples_per_second")) is not None]
    state.step = max(steps, default=None)
    state.step_seconds = statistics.median(lengths) if lengths else None
    state.samples_per_second = sum(rates) if rates else None
    state.account = _account(folder, facts)
    for each in newest:
        anomalies = each.get("last_anomalies")
        for anomaly in anomalies if isinstance(anomalies, list) else ():
            if isinstance(anomaly, dict):
                state.anomalies.append({**anomaly, "host": each["name"]})
    for each in newest:
        why = each.get("unavailable")
        state.unavailable |= (
            {str(name): str(text) for name, text in why.items()} if isinstance(why, dict) else {}
        )
    for name in NAMES:
        known = [value for each in fresh if (value := _number(each, name)) is not None]
        state.percent |= {name: statistics.mean(known)} if known else {}
    state.problems = sorted({str(each["problem"]) for each in newest if each.get("problem")})
    return state


def _newest_by_rank(facts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for each in sorted(facts, key=lambda each: _number(each, "wall_seconds") or 0):
        rank = each.get("rank")
        found[f"{rank:06d}" if isinstance(rank, int) else str(each.get("host"))] = each
    return [found[key] for key in sorted(found)]


def _host(facts: dict[str, Any], usual: float | None, now: float) -> Host:
    own, best = _number(facts, "own_work_seconds"), _number(facts, "own_best_seconds")
    rank = facts.get("rank")
    return Host(
        str(facts.get("host")),
        rank if isinstance(rank, int) else None,
        int(step) if (step := _number(facts, "step")) is not None else None,
        _number(facts, "median_step_seconds"),
        usual / own if usual and own else None,
        best / own if best and own else None,
        _silent_seconds(facts, now),
        str(facts.get("ended") or ""),
    )


def _silent_seconds(facts: dict[str, Any], now: float) -> float:
    return max(0.0, now - (_number(facts, "wall_seconds") or 0.0))


def _account(folder: Path, facts: list[dict[str, Any]]) -> Account | None:
    """The goodput of the first rank: its attempts' ledgers alone are read."""
    ranks = [each["rank"] for each in facts if isinstance(each.get("rank"), int)]
    first = min(ranks, default=None)
    names = [each["name"] for each in facts if each.get("rank") == first or first is None]
    ledgers = [read_ledger(folder / LEDGERS / name) for name in names]
    ledgers = sorted((each for each in ledgers if each.life), key=lambda each: each.wall_ns(each.started_ns))
    return account([attempt_of(each) for each in ledgers]) if ledgers else None


def _with_verdicts(anomalies: list[dict[str, Any]], verdicts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_key = {_key(each["anomaly"]): each for each in verdicts if isinstance(each.get("anomaly"), dict)}
    return [each | {"verdict": by_key.get(_key(each), {}).get("capture")} for each in anomalies]


def _key(anomaly: dict[str, Any]) -> tuple[str, str]:
    return str(anomaly.get("kind")), str(anomaly.get("step"))


def _number(facts: dict[str, Any], name: str) -> float | None:
    value = facts.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def render(jobs: list[JobState], console: Console) -> None:
    """Print the state of jobs."""
    console.print(picture(jobs))


def picture(jobs: list[JobState]) -> Group:
    """The state of jobs as a renderable, for a live screen."""
    from rich.console import Group

    return Group(*[part for job in jobs for part in _job(job)])


def _job(job: JobState) -> list[Any]:
    from rich.table import Table
    from rich.text import Text

    speed = f"{job.step_seconds:.3f} s per step" if job.step_seconds else "step time unknown"
    rate = f", {job.samples_per_second:.1f} samples per second" if job.samples_per_second is not None else ""
    parts: list[Any] = [
        Text(printable(f"Job {job.job}: step {job.step}, {speed}{rate}; {alive(job)}"), style="bold")
    ]
    if job.account is not None and job.account.goodput is not None:
        share = f"{100 * job.account.goodput:.1f} % of {duration(job.account.wall_ns)}"
        parts.append(Text(f"Goodput {share}; lost: {lost_to(job.account)}"))
    slowest = job.slowest()[:MOST_HOSTS]
    if len(job.running) > 1 and slowest:
        table = Table("slowest hosts", "rank", "step", "relative", "own best", box=None, pad_edge=False)
        for host in slowest:
            table.add_row(
                Text(printable(host.name)),
                str(host.rank),
                str(host.step),
                _share(host.relative),
                _share(host.own_best),
            )
        parts.append(table)
    parts += [Text(printable(_silence(host))) for host in job.silent[:MOST_HOSTS]]
    for anomaly in job.anomalies[-MOST_ANOMALIES:]:
        verdict = f" Verdict: {anomaly['verdict']}" if anomaly.get("verdict") else ""
        parts.append(Text(printable(f"{anomaly.get('kind')}: {anomaly.get('message')}.{verdict}")))
    parts += [Text(printable(f"Note: {problem}")) for problem in job.problems]
    return parts


def _silence(host: Host) -> str:
    return f"{host.name} (rank {host.rank}): no sign of life for {duration(host.silent_seconds * NS_PER_S)}"


def lost_to(total: Account) -> str:
    """The three kinds of time that took most, besides productive steps."""
    largest = sorted(((total.kinds[kind.name], kind.title) for kind in KINDS[1:]), reverse=True)[:3]
    return ", ".join(f"{title} {duration(spent)}" for spent, title in largest if spent) or "nothing"


def alive(job: JobState) -> str:
    """How many processes of a job give a sign of life, or how it ended."""
    ended = [each.ended for each in job.hosts if each.ended]
    if job.running or not ended:
        return f"{len(job.running)} of {len(job.hosts)} processes give a sign of life"
    return f"ended ({ended[-1]})"


def _share(value: float | None) -> str:
    return f"{value:.2f}" if value is not None else "unknown"
