"""Preflights programs of the zoo beside planted files: the right graph or an honest refusal, and no file changed.

    python benchmarks/preflight_zoo.py [NAME ...]

What is right is in scenarios/zoo/preflight.toml. Programs are traced, not compiled. Writes docs/preflight-zoo.md where
all were run. Exit status: 0 where all came out right.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

from tpuprof.errors import TpuprofError
from tpuprof.preflight.script import ScriptRun, Trace, trace_script

ROOT = Path(__file__).resolve().parents[1]
ZOO = ROOT / "scenarios" / "zoo"
PAGE = ROOT / "docs" / "preflight-zoo.md"
PLANTED = "planted.txt"
# Written before the program's first line and as it ends: both would change the planted file.
WRITES = f"""import atexit, pathlib
pathlib.Path({PLANTED!r}).write_text("overwritten")
atexit.register(lambda: pathlib.Path({PLANTED!r}).write_text("overwritten at the end"))
"""
HEAD = """# Preflight on programs of the zoo

```console
$ make preflight-zoo
```

Each program is a script of the [zoo](zoo.md), run in a folder of its own beside a planted file that it overwrites as
it starts and as it ends. What must be taken for its step is in `scenarios/zoo/preflight.toml`: by how the program is
built, how many tensors one iteration updates and in how many graphs; or that preflight must refuse it, say that nothing
trains, or say that no iteration repeats. No file may be changed, added or removed.
"""


def main() -> int:
    """Trace the programs that are asked for; returns the exit status."""
    truths = tomllib.loads((ZOO / "preflight.toml").read_text("utf-8"))
    names, rows, right = sys.argv[1:] or list(truths), [], 0
    for name in names:
        started = time.monotonic()
        said, files = look(name, int(truths[name].get("devices", 1)))
        wanted = {key: value for key, value in truths[name].items() if key != "devices"}
        fine = said == wanted and not files
        right += fine
        words = [
            _text(wanted),
            "as it must" if said == wanted else f"WRONG: {_text(said)}",
            files or "untouched",
        ]
        rows.append(f"| `{name}` | {' | '.join(words)} |")
        print(f"{name:24} {' | '.join(words)} ({time.monotonic() - started:.0f} s)", flush=True)
    total = f"{right} of {len(names)} programs came out right."
    print(total)
    if len(names) == len(truths):
        table = ["| program | must say | says | files |", "|---|---|---|---|", *rows]
        PAGE.write_text("\n".join([HEAD, total, "", *table]) + "\n", "utf-8")
    return 0 if right == len(names) else 1


def look(name: str, devices: int) -> tuple[dict[str, Any], str]:
    """What preflight takes for the step of a program, and what became of the files beside it (empty: nothing)."""
    with tempfile.TemporaryDirectory(prefix="preflight-zoo-", dir=Path.home()) as folder:
        work, trace = Path(folder) / "work", Path(folder) / "trace"
        shutil.copytree(ZOO / name, work, ignore=shutil.ignore_patterns("__pycache__"))
        trace.mkdir()
        script = work / "train.py"
        script.write_text(
            WRITES.replace(repr(PLANTED), repr(str(work / PLANTED))) + script.read_text("utf-8"), "utf-8"
        )
        (work / PLANTED).write_text("planted", "utf-8")
        before = _state(work)
        try:
            said = _said(trace_script(ScriptRun(str(script), devices=devices), trace))
        except TpuprofError as error:
            said = {"refused": str(error.code)}
        after = _state(work)
        changed = sorted(each for each in {*before, *after} if before.get(each) != after.get(each))
        return said, ", ".join(changed)


def _said(trace: Trace) -> dict[str, Any]:
    if not trace.trains:
        return {"no_training": True}
    if not trace.is_steady:
        return {"doubt": True}
    counted = [(graph, times) for graph, times in trace.iteration if not graph.small]
    return {
        "weights": sum(graph.updates * times for graph, times in counted),
        "graphs": sum(times for _, times in counted),
    }


def _text(found: dict[str, Any]) -> str:
    if "weights" in found:
        return f"{found['weights']} weights in {found['graphs']} graph(s)"
    if "refused" in found:
        return f"refused ({found['refused']})"
    return "no training step" if "no_training" in found else "no iteration repeats"


def _state(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


if __name__ == "__main__":
    sys.exit(main())
