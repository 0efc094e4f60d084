"""Searches ten models by themselves, compiles each winner again from the changed script, and writes docs/search.md.

    python benchmarks/search_models.py [NAME ...] [--page] [--again]

Results are kept in scenarios/search/results/, so that a broken-off run goes on where it stopped; `--again` searches
again and `--page` only writes the page. What is compiled once is in tpuprof's own cache. Exit status: 0 where at least
six models came out ahead.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

from tpuprof.preflight.search.choices import Choice

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "scenarios" / "search"
RESULTS = HOME / "results"
PAGE = ROOT / "docs" / "search.md"
# What counts as ahead (share of the predicted step), and of how many models it is asked.
AHEAD_FROM, AHEAD_AT_LEAST = 0.1, 6
# How far a compile of the changed script may be from the search's own (share of the step): its source lines differ.
AGREES_WITHIN = 0.01
HEAD = """# The search on ten models

```console
$ make search                # all; results are kept, so a broken-off run goes on where it stopped
$ make search ONLY=vit       # one
```

Each model is an ordinary training script in `scenarios/search/` that knows nothing of tpuprof, small enough
for a compile of about a minute. `tpuprof preflight SCRIPT --tpu SLICE --search auto` tries what it finds by itself,
with so many compiles as `models.toml` there says. Its winner is then compiled once more outside the search, without
the cache, from a copy of the script that was changed by hand as the search says (`models.toml`), or with the arguments
and environment that it says. Both times are predictions: nothing was measured on a TPU.

Most of what is fastest is a larger batch, which is another training: the column after it says what the best point with
the script's own batch gains. Both scripts with a mesh begin with all chips on its `model` axis. Budgets are small, so
that few flags were tried. "Points, compiles": what was tried, and how many of it was not in the cache.
"""


def main() -> int:
    """Search what is asked for, write the page; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="models to search; all by default")
    parser.add_argument("--page", action="store_true", help="only write the page, from what is kept")
    parser.add_argument("--again", action="store_true", help="search again what is kept")
    options = parser.parse_args()
    models = tomllib.loads((HOME / "models.toml").read_text("utf-8"))
    for name in [] if options.page else options.names or list(models):
        kept = RESULTS / f"{name}.json"
        if options.again or not kept.is_file():
            found = examine(name, models[name])
            RESULTS.mkdir(exist_ok=True)
            kept.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
        print(_row(name, models[name]), flush=True)
    write(models)
    return 0 if sum(_ahead(name) for name in models) >= AHEAD_AT_LEAST else 1


def examine(name: str, model: dict[str, Any]) -> dict[str, Any]:
    """Search one model and compile its winner from the changed script."""
    with tempfile.TemporaryDirectory(prefix="tpuprof-search-") as folder:
        out, started = Path(folder), time.monotonic()
        arguments = ["--search", "auto", "--search-compiles", str(model["compiles"]), "--json", "-o", folder]
        _preflight(HOME / f"{name}.py", model["tpu"], arguments, [])
        found = json.loads((out / "search.json").read_text("utf-8"))["searches"][0]
        seconds = round(time.monotonic() - started)
    kept = kept_of(found, seconds)
    winner = _winner(kept)
    if winner is not None:
        kept["changed"] = changed(name, model, winner)
    return kept


def kept_of(found: dict[str, Any], seconds: int) -> dict[str, Any]:
    """What is kept of a search that took so many seconds."""
    keys = ("label", "settings", "status", "why", "on_front", "step_ms", "samples", "faster", "hbm_bytes",
            "compile_seconds", "changes", "numerics", "how_sure")  # fmt: skip
    tried = [{key: each[key] for key in keys} for each in found["tried"]]
    return {"seconds": seconds, "compiles": found["compiles"], "winner": found["winner"], "tried": tried,
            "winner_agrees": found["winner_agrees"], "points_not_reached": found["points_not_reached"]}  # fmt: skip


def changed(name: str, model: dict[str, Any], winner: dict[str, Any]) -> dict[str, Any]:
    """Compile the script as a user would have changed it, without the cache: its predicted step in ms."""
    text, arguments, environment = (HOME / f"{name}.py").read_text("utf-8"), [], []
    for each in winner["settings"]:
        if each["kind"] == "flag":
            environment.append(each["value"])
        elif each["kind"] in ("setting", "switch"):
            arguments += [f"--{each['name']}", *([each["value"]] if each["value"] else [])]
        else:
            edit = each["name"] if each["kind"] == "change" else f"mesh={each['value']}"
            for old, new in model["edits"][edit]:
                if text.count(old) != 1:
                    raise SystemExit(f"{name}: {old!r} is not in the script once")
                text = text.replace(old, new)
    with tempfile.TemporaryDirectory(prefix="tpuprof-search-") as folder:
        script = Path(folder) / f"{name}_changed.py"
        script.write_text(text, "utf-8")
        options = ["--no-cache", "--json", "-o", folder]
        if environment:
            options += ["--env", f"LIBTPU_INIT_ARGS={' '.join(environment)}"]
        answer = json.loads(_preflight(script, model["tpu"], options, arguments))
    (iteration,) = answer["variants"][0]["iterations"]
    return {"step_ms": iteration["step_ms"], "fits": iteration["fits"], "arguments": arguments}


def _preflight(script: Path, tpu: str, options: list[str], arguments: list[str]) -> str:
    command = [sys.executable, "-m", "tpuprof", "preflight", str(script), "--tpu", tpu, *options]
    done = subprocess.run(
        [*command, *(["--", *arguments] if arguments else [])], cwd=ROOT, env={**os.environ}, check=False,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{script.name}: tpuprof preflight ended with status {done.returncode}")
    return done.stdout


def _kept(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def _winner(found: dict[str, Any]) -> dict[str, Any] | None:
    return next((each for each in found["tried"] if each["label"] == found["winner"]), None)


def _ahead(name: str) -> bool:
    """Whether the winner is ahead, and the changed script agrees."""
    found = _kept(name)
    winner = _winner(found) if found else None
    if not found or winner is None or (winner["faster"] or 0.0) < AHEAD_FROM:
        return False
    step = found.get("changed", {}).get("step_ms")
    return step is not None and abs(step / winner["step_ms"] - 1) <= AGREES_WITHIN


def _row(name: str, model: dict[str, Any]) -> str:
    found, told = _kept(name), [f"`{name}`", model["what"], model["tpu"]]
    if found is None:
        return f"| {' | '.join([*told, 'not searched'])} |" + " |" * 6
    base, winner = found["tried"][0], _winner(found)
    count, same = f"{len(found['tried'])}, {found['compiles']}", _same_batch(found)
    if winner is None:
        cells = [*told, _ms(base), "nothing faster", "", "", same, "", count]
    else:
        again = found.get("changed", {}).get("step_ms")
        compiled = _ms({**winner, "step_ms": again}) if again else "not compiled"
        faster = f"{winner['faster']:.0%}"
        cells = [*told, _ms(base), winner["label"], _ms(winner), faster, same, compiled, count]
    return f"| {' | '.join(cells)} |"


def _same_batch(found: dict[str, Any]) -> str:
    """What the best point with the script's own batch gains, of those that were tried."""
    points = [
        each
        for each in found["tried"][1:]
        if each["faster"] is not None
        and not any(Choice(one["name"], one["value"], one["kind"]).is_batch for one in each["settings"])
    ]
    best = max(points, key=lambda each: each["faster"], default=None)
    if best is None:
        return "not tried"
    return f"{best['faster']:.0%} ({best['label']})" if best["faster"] > 0 else "nothing"


def _ms(point: dict[str, Any]) -> str:
    return f"{point['step_ms'] / (point['samples'] or 1):.4g} ms"


def write(models: dict[str, Any]) -> None:
    """Write the page from what is kept."""
    ahead = sum(_ahead(name) for name in models)
    longest = max((found["seconds"] for name in models if (found := _kept(name))), default=0)
    lines = [
        HEAD,
        f"Of {len(models)} models {ahead} came out ahead by {AHEAD_FROM:.0%} or more, and their changed scripts agree "
        f"within {AGREES_WITHIN:.0%}. Times are per sample where the script has an option for its batch, "
        f"else per step. The longest search took {longest / 60:.0f} minutes on two cores that had other work as well.",
        "",
        "| script | model | slice | as it is | fastest | its time | faster | with the same batch | changed script | "
        "points, compiles |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(_row(name, model) for name, model in models.items()),
        "",
        "What each fastest point changes in the numerics, and how sure its prediction is:",
        "",
    ]
    for name in models:
        found = _kept(name)
        winner = _winner(found) if found else None
        if winner is not None:
            lines.append(f"- `{name}`: {'; '.join(winner['numerics'])}. {winner['how_sure'].capitalize()}.")
    PAGE.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
