"""The programs that a rule's advice is: small complete scripts beside `rule.py`, and how each was checked.

A rule's folder holds `before.py` and `after.py` for PyTorch/XLA, and `before_jax.py` and `after_jax.py` where there
is a pair for JAX, `before_tpu.py` and `after_tpu.py` where there is one for TorchTPU. The lines worth showing stand
between `# [shown]` and `# [/shown]`. `advice.toml` says how the pair is checked, and holds what of the advice is no
code: environment variables, a command. Its table `jax` is the pair for JAX.
"""

from __future__ import annotations

import json
import textwrap
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from tpuprof.records import record

TORCH_XLA = "torch_xla"
TORCH_TPU = "torch_tpu"
JAX = "jax"
# Frameworks that advice is written for, with their names in prose and the ending of their programs' names.
FRAMEWORKS = {TORCH_XLA: ("PyTorch/XLA", ""), TORCH_TPU: ("TorchTPU", "_tpu"), JAX: ("JAX", "_jax")}
# What stands for the device of programs that are measured.
_CPU = {TORCH_XLA: "PJRT_DEVICE=CPU", TORCH_TPU: "a CPU plugin", JAX: "PJRT_DEVICE=CPU"}
PLAN = "advice.toml"
RECORD = Path(__file__).resolve().parent / "advice_record.json"

MEASURED = "measured"
COMPILED = "compiled"
NEITHER = "neither"
# Longest line of a page's text (characters).
LINE = 118
_OPEN, _CLOSE = "# [shown]", "# [/shown]"


@record(frozen=True)
class Program:
    """One script of a pair. `shown` is what a page shows of it, with the variables or the command it is run by."""

    path: Path
    shown: str
    environment: dict[str, str]
    capture: list[str]


@record(frozen=True)
class Advice:
    """A rule's advice for one framework, and its plan: `advice.toml`, or its table for that framework."""

    framework: str
    before: Program
    after: Program
    plan: dict[str, Any]

    @property
    def checked(self) -> str:
        """How the pair is checked: measured, compiled or neither."""
        return str(self.plan["checked"])

    @property
    def pending(self) -> str:
        """Why the check that is planned has not been passed yet; empty where it has, and where there is none."""
        return str(self.plan.get("pending", ""))


def advice_of(folder: Path) -> dict[str, Advice]:
    """The advice in a rule's folder, by framework; empty where it has no programs."""
    plan = tomllib.loads((folder / PLAN).read_text("utf-8")) if (folder / PLAN).is_file() else {}
    found = {}
    for framework, (_, ending) in FRAMEWORKS.items():
        own = plan if framework == TORCH_XLA else plan.get(framework, {})
        if own.get("checked"):
            sides = {side: own.get(side, {}) for side in ("before", "after")}
            run = any(each.get("environment") or each.get("capture") for each in sides.values())
            before, after = (
                _program(folder / f"{side}{ending}.py", each, run=run) for side, each in sides.items()
            )
            found[framework] = Advice(framework, before, after, own)
    return found


def shown_lines(script: str) -> str:
    """The lines of a script between its markers, each stretch moved to the margin, in one text."""
    stretches: list[list[str]] = []
    inside = False
    for line in script.splitlines():
        if line.strip() in (_OPEN, _CLOSE):
            inside = line.strip() == _OPEN
            if inside:
                stretches.append([])
        elif inside:
            stretches[-1].append(line)
    return "\n".join(textwrap.dedent("\n".join(each)).strip("\n") for each in stretches)


@cache
def kept_record() -> dict[str, Any]:
    """What the last checks of all advice found, by rule (and framework, where it is not PyTorch/XLA)."""
    if not RECORD.is_file():
        return {}
    found: dict[str, Any] = json.loads(RECORD.read_text("utf-8"))
    return found


def record_key(rule_id: str, framework: str) -> str:
    """The name of a check in the record."""
    return rule_id if framework == TORCH_XLA else f"{rule_id} ({framework})"


def how_checked(rule_id: str, advice: Advice) -> str:
    """One paragraph on how a pair was checked, from the record, in lines as long as the other text's."""
    return textwrap.fill(_how(rule_id, advice), LINE, break_long_words=False, break_on_hyphens=False)


def _how(rule_id: str, advice: Advice) -> str:
    name = FRAMEWORKS[advice.framework][0]
    if advice.pending:
        return f"{name}: not checked yet ({advice.checked} is planned), because {advice.pending}."
    if advice.checked == NEITHER:
        return (
            f"{name}: neither measured nor compiled, because {advice.plan['reason']}. What the programs import and "
            "call exists in the installed libraries."
        )
    entry = kept_record().get(record_key(rule_id, advice.framework))
    if not entry:
        return f"{name}: not checked yet."
    on = ", ".join(f"{library} {version}" for library, version in entry["versions"].items())
    way = (
        f"both programs ran on {_CPU[advice.framework]} and were captured"
        if advice.checked == MEASURED
        else f"both programs were compiled by the TPU compiler for {advice.plan['target']}; the predicted runs were "
        "analyzed"
    )
    return f"{name}: {advice.checked}. On {entry['date']}, {way} ({on}). {_found(entry, advice)}"


def _found(entry: dict[str, Any], advice: Advice) -> str:
    before, after = (status.replace("_", " ") for status in entry["status"])
    said = f"The rule's status was {before} on Before and {after} on After."
    if advice.plan.get("title"):
        said = (
            f"The rule speaks of Before ({entry['status'][0]}) and is silent on After ({entry['status'][1]})."
        )
    if entry.get("difference") is not None:
        said += f" Results differ by {entry['difference']:.2g} (relative), at most {entry['tolerance']:g} is allowed."
    elif advice.plan.get("no_result"):
        said += f" Results were not compared: {advice.plan['no_result']}."
    for rule, why in advice.plan.get("also", {}).items():
        said += f" After also fails {rule}: {why}."
    return said


def _program(path: Path, plan: dict[str, Any], *, run: bool) -> Program:
    """A side of a pair; `run` shows also how it is run. A side without a file is a command alone."""
    environment = {name: str(value) for name, value in plan.get("environment", {}).items()}
    capture = [str(each) for each in plan.get("capture", [])]
    lines = shown_lines(path.read_text("utf-8")) if path.is_file() else ""
    command = plan.get("command", "")
    if run and not command:
        words = [f"{name}={_quoted(value)}" for name, value in environment.items()]
        words += ["tpuprof", "capture", *capture, "--"] if capture else []
        command = " ".join([*words, "python", "train.py"])
    return Program(path, "\n\n".join(each for each in (command, lines) if each), environment, capture)


def _quoted(value: str) -> str:
    return f'"{value}"' if any(each in value for each in " ;&$") else value
