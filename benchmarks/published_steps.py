"""Compares predicted steps with steps that others measured and published, and writes docs/published.md.

    python benchmarks/published_steps.py [NAME ...] [--page]

Each section of scenarios/published/published.toml is lowered to StableHLO and compiled by `tpuprof preflight` for the
slice that it names. Results are kept in scenarios/published/results/; `--page` only writes the page from them. Exit
status: 0 where at least five configurations were compared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from tpuprof.preflight.targets import parse_target

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "scenarios" / "published"
RESULTS = HOME / "results"
PAGE = ROOT / "docs" / "published.md"
COMPARED_AT_LEAST = 5
COMPILE_LIMIT_S = 1800


def main() -> int:
    """Predict what is asked for, write the page; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="configurations to predict; all by default")
    parser.add_argument("--page", action="store_true", help="only write the page, from what is kept")
    options = parser.parse_args()
    sections = tomllib.loads((HOME / "published.toml").read_text("utf-8"))
    defaults = sections.pop("defaults")
    sizes = {name: {**defaults, **section} for name, section in sections.items()}
    for name in [] if options.page else options.names or list(sizes):
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.json").write_text(
            json.dumps(predicted(name, sizes[name]), indent=1) + "\n", "utf-8"
        )
        print(_row(name, sizes[name]), flush=True)
    PAGE.write_text(page(sizes), "utf-8")
    return (
        0 if sum(_error(name, size) is not None for name, size in sizes.items()) >= COMPARED_AT_LEAST else 1
    )


def predicted(name: str, size: dict[str, Any]) -> dict[str, Any]:
    """What preflight says of one configuration."""
    with tempfile.TemporaryDirectory(prefix="tpuprof-published-") as folder:
        program = Path(folder) / f"{name}.mlir"
        environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
        subprocess.run(
            [sys.executable, str(HOME / "decoder.py"), name, str(program)], env=environment, check=True
        )
        command = [sys.executable, "-m", "tpuprof", "preflight", str(program), "--tpu", size["tpu"], "--json"]
        command += ["-o", folder, "--time-limit", str(COMPILE_LIMIT_S)]
        if size["flags"]:
            command += ["--env", f"LIBTPU_INIT_ARGS={size['flags']}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    (found,) = json.loads(done.stdout)["variants"][0]["targets"]
    keys = (
        "status",
        "why",
        "compile_seconds",
        "versions",
        "memory",
        "predicted",
        "flops_per_device",
        "warnings",
    )
    kept = {key: found[key] for key in keys}
    if kept["memory"]:
        kept["memory"].pop("largest_buffers", None)
    return kept


def published_seconds(size: dict[str, Any]) -> float:
    """Seconds of a step: as published, or the counted operations over the published rate."""
    return float(size.get("seconds") or counted_flops(size) / (size["tflops"] * 1e12))


def counted_flops(size: dict[str, Any]) -> float:
    """Operations of a chip's step as the source counts them: 6 per weight and token, and half of all attention."""
    heads = size["heads"] + size["kv_heads"]
    layer = size["width"] * (2 * size["head"] * heads + 3 * size["mlp"])
    weights = size["layers"] * layer + 2 * size["vocabulary"] * size["width"]
    attention = 6 * size["layers"] * size["heads"] * size["head"] * size["sequence"]
    return float(size["per_device_batch"] * size["sequence"] * (6 * weights + attention))


def page(sizes: dict[str, dict[str, Any]]) -> str:
    """The page's text."""
    rows = [_row(name, size) for name, size in sizes.items()]
    errors = {name: error for name, size in sizes.items() if (error := _error(name, size)) is not None}
    within = f"{min(errors.values()):+.0%} to {max(errors.values()):+.0%}" if errors else "nothing compiled"
    head = (HOME / "page.head.md").read_text("utf-8")
    table = [
        "| configuration | slice | published | step s | predicted s | error | compute, exposed collectives, exposed "
        "copies, waits s | HBM GiB | compile s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    total = f"{len(errors)} of {len(sizes)} configurations were compiled; errors are {within}."
    return "\n".join([head.rstrip(), "", total, "", *table, *rows, ""])


def _row(name: str, size: dict[str, Any]) -> str:
    chips = parse_target(size["tpu"]).chips
    stated = f"{size['tflops']:g} TFLOP/s a chip" if "tflops" in size else f"{size['seconds']:g} s a step"
    cells = [size["what"], f"{size['tpu']} ({chips} chips)", stated, f"{published_seconds(size):.3g}"]
    found, error = _kept(name), _error(name, size)
    if found is None or error is None:
        return f"| {' | '.join([*cells, found['status'] if found else 'not run', '', '', '', ''])} |"
    split = found["predicted"]["split_ms"]
    parts = ", ".join(
        f"{split[key] / 1e3:.3g}" for key in ("compute", "collective_exposed", "offload_exposed", "idle")
    )
    size_gib = (
        f"{found['memory']['total_bytes'] / 2**30:.1f} of {found['memory']['capacity_bytes'] / 2**30:.1f}"
    )
    step = f"{found['predicted']['step_ms'] / 1e3:.3g}"
    cells += [step, f"{error:+.0%}", parts, size_gib, f"{found['compile_seconds']:.0f}"]
    return f"| {' | '.join(cells)} |"


def _error(name: str, size: dict[str, Any]) -> float | None:
    found = _kept(name)
    if found is None or not found["predicted"]:
        return None
    return float(found["predicted"]["step_ms"]) / 1e3 / published_seconds(size) - 1


def _kept(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
