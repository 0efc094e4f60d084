"""Checks every rule's advice by running it: the rule fails on Before, does not on After, and both compute the same.

    python scenarios/advice.py [RULE ...] [--again] [--fast]

A rule's programs lie beside its rule.py, and its advice.toml says how they are checked. `measured` captures both on
PJRT_DEVICE=CPU; those for TorchTPU run in its second environment (places.py), and are skipped without one. `compiled`
compiles both with the TPU compiler (`tpuprof preflight`), analyses the predicted runs, and runs both on the CPU for
their results. `neither` says why. In each case what the programs import, call and set must exist in the installed
libraries (advice_names.py).

What was found is kept in tpuprof/rules/advice_record.json with hashes of what it holds for; a check whose hashes and
library versions still hold is not made again, unless by `--again`. Exit status: 0 if all that was asked for holds.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import places

# Folders of scenarios are called like frameworks: what is imported later must not find those.
del sys.path[0]

from tpuprof.rules import programs
from tpuprof.rules.base import Rule
from tpuprof.rules.programs import (
    COMPILED,
    JAX,
    MEASURED,
    NEITHER,
    RECORD,
    TORCH_TPU,
    TORCH_XLA,
    Advice,
    Program,
    record_key,
)
from tpuprof.rules.registry import all_rules

ROOT = Path(__file__).resolve().parent.parent
# The libraries that advice for a framework depends on.
LIBRARIES = {
    TORCH_XLA: ("torch", "torch_xla", "jax", "libtpu"),
    TORCH_TPU: ("torch", "torch_tpu"),
    JAX: ("jax",),
}
TIMEOUT_SECONDS = 900
# Captured steps, and steps to wait for steady training, where a plan asks for no other number (steps).
CAPTURE_STEPS = 12
PATIENCE = 20
# How far results may differ where a plan does not say (relative to the larger one).
TOLERANCE = 1e-4
FINE = ("passed", "not_applicable")
_FOLDER = re.compile(r"/\S*/(?=(?:before|after)\w*\.py\b)")


class WrongError(Exception):
    """A check that could not be made, or did not hold."""


def main() -> int:
    """Check what is asked for; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rules", nargs="*", help="rules to check; all by default")
    parser.add_argument("--again", action="store_true", help="check also what was checked before")
    parser.add_argument("--fast", action="store_true", help="only those that `make test` runs")
    parser.add_argument("--keep", metavar="FOLDER", help="keep the runs in this folder, to look into them")
    options = parser.parse_args()
    wrong = []
    for rule, advice in chosen(options.rules):
        key = record_key(rule.id, advice.framework)
        if advice.checked == NEITHER or (options.fast and not advice.plan.get("fast")):
            continue
        if not options.again and not stale(rule, advice, planned=True):
            print(f"{key:40} fresh", flush=True)
            continue
        try:
            entry = check(rule, advice, options.keep)
        except places.AbsentError as error:
            print(f"{key:40} skipped: {error}", flush=True)
            continue
        except WrongError as error:
            wrong.append(key)
            print(f"{key:40} WRONG: {error}", flush=True)
            continue
        keep(key, entry)
        more = f"; take `pending` out of its {programs.PLAN}" if advice.pending else ""
        print(f"{key:40} ok: {entry['status'][0]}, {entry['status'][1]}{more}", flush=True)
    drop_old()
    if wrong:
        print(f"wrong: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


def chosen(ids: list[str]) -> list[tuple[Rule, Advice]]:
    """The advice of these rules for each framework; of all rules where none is named."""
    unknown = set(ids) - {rule.id for rule in all_rules()}
    if unknown:
        raise SystemExit(f"no such rule: {', '.join(sorted(unknown))}")
    return [
        (rule, advice) for rule in all_rules() if not ids or rule.id in ids for advice in rule.advice.values()
    ]


def check(rule: Rule, advice: Advice, keep_in: str | None = None) -> dict[str, Any]:
    """Check one pair; returns what the record keeps. Raises `WrongError`, or `AbsentError` where it cannot run here.

    The runs stay in the folder `keep_in`, where one is named.
    """
    look = _measured if advice.checked == MEASURED else _compiled
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(keep_in or scratch) / rule.id
        sides = [
            look(program, advice, folder / program.path.stem) for program in (advice.before, advice.after)
        ]
    (before, told_before), (after, told_after) = sides
    status = [found[rule.id]["status"] for found in (before, after)]
    _judge(rule, advice, before, after)
    entry: dict[str, Any] = {
        "checked": advice.checked,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "status": status,
        # Without the scratch folder that the programs ran in.
        "title": [_FOLDER.sub("", found[rule.id]["title"]) for found in (before, after)],
        "stopped_failing": sorted(_failed(before) - _failed(after)),
        "hashes": hashes(advice),
        "versions": versions(advice),
    }
    if not advice.plan.get("no_result"):
        entry["tolerance"] = advice.plan.get("tolerance", TOLERANCE)
        entry["difference"] = _difference(told_before, told_after)
        if not entry["difference"] <= entry["tolerance"]:
            raise WrongError(f"results differ: {told_before} and {told_after}")
    return entry


def stale(rule: Rule, advice: Advice, *, planned: bool = False) -> str:
    """Why the record does not hold for a pair any more; empty where it does, and where nothing is to be checked."""
    if advice.checked == NEITHER or (advice.pending and not planned):
        return ""
    entry = programs.kept_record().get(record_key(rule.id, advice.framework))
    if entry is None:
        return "it was never checked"
    changed = [name for name, found in hashes(advice).items() if entry["hashes"].get(name) != found]
    if changed:
        return f"{', '.join(changed)} changed"
    now = versions(advice)
    newer = [
        name
        for name, number in entry["versions"].items()
        if name in now and _minor(now[name]) != _minor(number)
    ]
    return f"{', '.join(newer)} changed" if newer else ""


def keep(key: str, entry: dict[str, Any]) -> None:
    """Write one check into the record."""
    kept = json.loads(RECORD.read_text("utf-8")) if RECORD.is_file() else {}
    kept[key] = entry
    RECORD.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", "utf-8")


def drop_old() -> None:
    """Take checks of advice that is no longer there out of the record."""
    if not RECORD.is_file():
        return
    kept = json.loads(RECORD.read_text("utf-8"))
    there = {
        record_key(rule.id, advice.framework) for rule, advice in chosen([]) if advice.checked != NEITHER
    }
    if set(kept) - there:
        kept = {key: entry for key, entry in kept.items() if key in there}
        RECORD.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", "utf-8")


def hashes(advice: Advice) -> dict[str, str]:
    """What a check holds for: both programs, their plan, and the rule's code without its texts."""
    folder = advice.before.path.parent
    plan = {
        name: value
        for name, value in advice.plan.items()
        if name not in (JAX, TORCH_TPU, "fast", "no_result", "also", "pending")
    }
    return {
        advice.before.path.name: _hash(advice.before.path.read_bytes()),
        advice.after.path.name: _hash(advice.after.path.read_bytes()),
        programs.PLAN: _hash(json.dumps(plan, sort_keys=True).encode()),
        "rule.py": _hash(_code((folder / "rule.py").read_text("utf-8")).encode()),
    }


def versions(advice: Advice) -> dict[str, str]:
    """The libraries a pair depends on, with their versions, as far as they are installed where it runs."""
    names = [name for name in LIBRARIES[advice.framework] if name != "libtpu" or advice.checked == COMPILED]
    # TorchTPU's second environment need not be here.
    where = list(map(str, places.TORCH_TPU_HOME.glob("lib/python*/site-packages")))
    installed = distributions(path=where) if advice.framework == TORCH_TPU else distributions()
    found = {each.name.replace("-", "_"): each.version for each in installed if each.name}
    return {name: found[name] for name in names if name in found}


def _judge(rule: Rule, advice: Advice, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Whether the rule speaks of Before only, and no other rule starts to fail."""
    first, second = before[rule.id], after[rule.id]
    said = advice.plan.get("title")
    if said:
        if said not in first["title"] or said in second["title"]:
            raise WrongError(f"the rule says {first['title']!r} and {second['title']!r}")
    elif first["status"] != "failed" or second["status"] not in FINE:
        raise WrongError(
            f"the rule is {first['status']} ({first['title']}; {first['reason']}) and "
            f"{second['status']} ({second['title']}; {second['reason']})"
        )
    new = _failed(after) - _failed(before) - set(advice.plan.get("also", {}))
    if new:
        titles = ", ".join(f"{each} ({after[each]['title']})" for each in sorted(new))
        raise WrongError(f"After also fails {titles}")


def _failed(findings: dict[str, Any]) -> set[str]:
    return {name for name, finding in findings.items() if finding["status"] == "failed"}


def _measured(program: Program, advice: Advice, run: Path) -> tuple[dict[str, Any], list[float]]:
    options = program.capture or [
        "--steps",
        str(advice.plan.get("capture_steps", CAPTURE_STEPS)),
        "--patience",
        str(advice.plan.get("patience", PATIENCE)),
    ]
    command = ["capture", "-o", str(run), *options, "--", *_python(advice), str(_outside(program, run))]
    said = _tpuprof(command, _environment(program, advice))
    return _findings(run), [] if advice.plan.get("no_result") else _result(said)


def _compiled(program: Program, advice: Advice, run: Path) -> tuple[dict[str, Any], list[float]]:
    target = advice.plan["target"]
    environment = _environment(program, advice)
    script = str(_outside(program, run))
    # A program that does not train gets no verdict on training (status 4), and its predicted run all the same.
    _tpuprof(["preflight", script, "--tpu", target, "-o", str(run)], environment, fine=(0, 4))
    if advice.plan.get("no_result"):
        return _findings(run / target), []
    # A program takes a smaller size as its argument, so that the CPU computes its result in a moment.
    command = [sys.executable, script, *advice.plan.get("result_arguments", [])]
    return _findings(run / target), _result(_output(command, environment))


def _python(advice: Advice) -> list[str]:
    """What a pair's scripts are run by; `AbsentError` where that is not here."""
    if advice.framework != TORCH_TPU:
        return [sys.executable]
    place = places.place_of("torch_tpu/")
    return [str(place.python()), str(place.path / "on_cpu.py")]


def _outside(program: Program, run: Path) -> Path:
    """A copy of a program beside its run: Python code inside tpuprof's folder is not a user's, and is not sampled."""
    script = run.with_suffix(".py")
    script.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(program.path, script)
    return script


def _findings(run: Path) -> dict[str, Any]:
    report = json.loads(_tpuprof(["analyze", str(run), "--json"], dict(os.environ)))
    return {finding["rule"]: finding for finding in report["findings"]}


def _tpuprof(arguments: list[str], environment: dict[str, str], fine: tuple[int, ...] = (0,)) -> str:
    return _output([sys.executable, "-m", "tpuprof", *arguments], environment, fine)


def _output(command: list[str], environment: dict[str, str], fine: tuple[int, ...] = (0,)) -> str:
    done = subprocess.run(
        command, timeout=TIMEOUT_SECONDS, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode not in fine:
        tail = "\n".join((done.stderr + done.stdout).strip().splitlines()[-12:])
        raise WrongError(f"{' '.join(command[1:6])} ... ended with {done.returncode}:\n{tail}")
    return done.stdout


def _environment(program: Program, advice: Advice) -> dict[str, str]:
    """The environment of a program: one thread for the device, and what its plan declares."""
    drop = ("XLA_", "PT_XLA_", "PJRT_", "CPU_NUM_DEVICES", "LIBTPU_", "JAX_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(drop)}
    path = os.pathsep.join(each for each in (str(ROOT), os.environ.get("PYTHONPATH", "")) if each)
    devices = advice.plan.get("devices", 1)
    more = {"CPU_NUM_DEVICES": str(devices)} if devices > 1 else {}
    return {
        **clean,
        "PYTHONPATH": path,
        "PJRT_DEVICE": "CPU",
        "JAX_PLATFORMS": "cpu",
        "NPROC": "1",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
        **more,
        **(places.torch_tpu_variables() if advice.framework == TORCH_TPU else {}),
        **advice.plan.get("environment", {}),
        **program.environment,
    }


def _result(said: str) -> list[float]:
    lines = [line for line in said.splitlines() if line.startswith("result ")]
    if not lines:
        raise WrongError("a program printed no result")
    return [float(each) for each in lines[-1].split()[1:]]


def _difference(first: list[float], second: list[float]) -> float:
    """The largest difference of two results, relative to the larger of each pair; infinite where they do not match."""
    if len(first) != len(second) or not all(map(math.isfinite, first + second)):
        return math.inf
    return max(
        abs(a - b) / max(abs(a), abs(b)) if a != b else 0.0 for a, b in zip(first, second, strict=True)
    )


def _code(source: str) -> str:
    """A rule's code as far as it decides: without comments, docstrings, imports, and its titles and status."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:]
        if isinstance(node, ast.Module):
            node.body = [each for each in node.body if not isinstance(each, ast.Import | ast.ImportFrom)]
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = []
    return ast.dump(tree)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _minor(number: str) -> list[str]:
    return number.split("+", maxsplit=1)[0].split(".")[:2]


if __name__ == "__main__":
    sys.exit(main())
