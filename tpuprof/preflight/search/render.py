"""A search's answer as text and as plain values for JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape

from tpuprof.preflight.render import table
from tpuprof.preflight.script import ScriptRun
from tpuprof.preflight.search.choices import changes_to_make, label_of
from tpuprof.preflight.search.engine import Found, gain_of
from tpuprof.preflight.search.front import Result
from tpuprof.preflight.search.judge import how_sure, numerics
from tpuprof.units import format_bytes, format_ms, format_share

_NOTE = (
    "Front: nothing else that was tried is better in predicted time, HBM and compile time. Compile times are of this "
    "machine as busy as it was."
)
# Shares of the predicted time within which a winner that was compiled again is the same.
AGREES_WITHIN = 0.01


def render_search(found: Found, run: ScriptRun, console: Console) -> None:
    """Print the front with what to change, then what was dropped or failed, then what was not reached."""
    console.print(
        f"\n[bold]Search on {escape(found.target)}[/]: {len(found.tried)} point(s), {found.compiles} compile(s)"
    )
    columns = ["variant", f"step{_per(found)}", "faster", "HBM", "compile"]
    rows = [_row(each, found) for each in found.front]
    if rows:
        table(console, columns, rows, narrow=len(columns))
        console.print(_NOTE, soft_wrap=True)
    for each in found.front:
        if each.point:
            _explain(each, found, run, console)
    for line in _closing(found):
        console.print(escape(line), soft_wrap=True)
    others = [each for each in found.tried if not each.fits]
    for each in others:
        console.print(f"  {escape(label_of(each.point))}: {each.status}: {escape(each.why)}", soft_wrap=True)


def _per(found: Found) -> str:
    return "/sample" if any(each.samples is not None for each in found.front) else ""


def _row(each: Result, found: Found) -> list[str]:
    gain = gain_of(each, found.base) if found.base is not None else None
    return [
        label_of(each.point),
        format_ms(each.cost_ms),
        "unknown" if gain is None else "-" if not each.point else format_share(gain),
        format_bytes(each.hbm or 0),
        f"{each.compile_s or 0.0:.1f} s",
    ]


def _explain(each: Result, found: Found, run: ScriptRun, console: Console) -> None:
    console.print(f"[bold]{escape(label_of(each.point))}[/]")
    for name, texts in (
        ("change", changes_to_make(run, each.point)),
        ("numerics", numerics(each, found.base)),
        ("how sure", [how_sure(each, found.base)]),
    ):
        for text in texts:
            console.print(f"  {name}: {escape(text)}", soft_wrap=True)


def _closing(found: Found) -> list[str]:
    lines = [each for each in (winner_text(found),) if each]
    if found.left:
        lines.append(
            f"{found.left} point(s) were not reached: the budget of compiles was spent (--search-compiles)"
        )
    if found.interrupted:
        lines.append("The search was interrupted. Run it again to go on: what was compiled is in the cache.")
    return lines


def winner_text(found: Found) -> str:
    """What came of compiling the fastest point again; empty where the search did not get so far."""
    if found.interrupted or found.base is None:
        return ""
    if not found.front:
        return "No point has a predicted time, so nothing could be compared."
    if found.winner is None:
        return "Nothing that was tried is faster than the script as it is." if len(found.tried) > 1 else ""
    label, again = label_of(found.winner.point), found.again
    if again is None or again.step_ms is None or found.winner.step_ms is None:
        return (
            f"{label} is the fastest, but could not be compiled again: {again.why if again else 'not tried'}."
        )
    agrees = agreement(found)
    same = "the same" if agrees else f"not the {format_ms(found.winner.step_ms)} of the search"
    time = format_ms(again.step_ms)
    return f"{label} is the fastest. Compiled again from the changed script: {time} per step, {same}."


def agreement(found: Found) -> bool | None:
    """Whether the winner, compiled again, is what the search found; None where it was not compiled again."""
    if found.winner is None or found.again is None or not found.winner.step_ms:
        return None
    if found.again.step_ms is None:
        return False
    return abs(found.again.step_ms / found.winner.step_ms - 1) <= AGREES_WITHIN


def search_dict(found: Found, run: ScriptRun) -> dict[str, Any]:
    """Plain values for JSON."""
    best = {id(each) for each in found.front}
    return {
        "target": found.target,
        "predicted": True,
        "compiles": found.compiles,
        "points_not_reached": found.left,
        "interrupted": found.interrupted,
        "tried": [_point_dict(each, found, run, on_front=id(each) in best) for each in found.tried],
        "winner": label_of(found.winner.point) if found.winner else None,
        "winner_again": _point_dict(found.again, found, run, on_front=True) if found.again else None,
        "winner_agrees": agreement(found),
    }


def _point_dict(each: Result, found: Found, run: ScriptRun, *, on_front: bool) -> dict[str, Any]:
    return {
        "label": label_of(each.point),
        "settings": [{"name": one.name, "value": one.value, "kind": one.kind} for one in each.point],
        "status": each.status,
        "why": each.why,
        "on_front": on_front,
        "step_ms": each.step_ms,
        "samples": each.samples,
        "step_ms_per_sample": each.cost_ms if each.fits and each.samples is not None else None,
        "faster": gain_of(each, found.base) if found.base is not None else None,
        "hbm_bytes": each.hbm,
        "compile_seconds": each.compile_s,
        "compiles": each.compiles,
        "changes": changes_to_make(run, each.point),
        "numerics": numerics(each, found.base),
        "how_sure": how_sure(each, found.base) if each.fits else None,
    }
