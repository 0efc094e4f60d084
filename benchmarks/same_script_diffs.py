"""How often two captures of the same training script are distinguished, and by how much such runs differ anyway.

    python benchmarks/same_script_diffs.py [--runs 11] [--steps 12] [--fault read] [--keep FOLDER]

Captures one script several times on PJRT_DEVICE=CPU, each in a process of its own, and compares each run with the
next: "no difference beyond noise" should come out at least 9 times in 10. The spread of the runs' medians is where
the thresholds in tpuprof/compare/diff.py come from. With `--fault` the candidates have a planted fault, and every
comparison should say "worse".
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FAULTS = ("none", "read", "wide")


def train(fault: str) -> None:
    """The script that is captured: a small decoder, and a fault that can be planted into it."""
    import torch
    import torch_xla

    from tpuprof.demo.decoder import Decoder, Shape, next_token_loss

    torch.manual_seed(0)
    model = Decoder(Shape(layers=2, width=96 if fault == "wide" else 64)).to(torch_xla.device())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in range(60):
        tokens = torch.randint(Shape.vocabulary, (16, 65)).to(torch_xla.device())
        optimizer.zero_grad()
        loss = next_token_loss(model, tokens)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        if fault == "read":
            loss.item()


def capture(folder: Path, steps: int, fault: str) -> None:
    environment = {
        **os.environ,
        "PJRT_DEVICE": "CPU",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-m", "tpuprof", "capture", "-o", str(folder), "--steps", str(steps), "--"]
    command += [sys.executable, __file__, "--train", fault]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=300)


def compare(base: list[Path], candidate: list[Path]) -> None:
    from tpuprof.analysis.analyze import analyze_run
    from tpuprof.compare.diff import diff

    reports = {path: analyze_run(path) for path in {*base, *candidate}}
    outcomes: dict[str, int] = {}
    for old, new in zip(base, candidate, strict=True):
        comparison = diff(reports[old], reports[new])
        outcomes[comparison.outcome.value] = outcomes.get(comparison.outcome.value, 0) + 1
        print(f"{old.name} {new.name}: {comparison.sentence}")
    print("one after the other:", outcomes)
    medians = sorted({str(path): report.steps.median_ms or 0.0 for path, report in reports.items()}.values())
    pairs = sorted(max(a, b) / min(a, b) - 1 for a, b in itertools.combinations(medians, 2))
    print("medians (ms):", " ".join(f"{each:.2f}" for each in medians))
    print(
        f"medians of two runs differ by {pairs[len(pairs) // 2]:.1%} (median pair), "
        f"{pairs[int(len(pairs) * 0.9)]:.1%} (nine of ten pairs), {pairs[-1]:.1%} (all)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--fault", choices=FAULTS, default="none")
    parser.add_argument("--keep", type=Path, help="folder for the runs")
    parser.add_argument("--train", choices=FAULTS, help="be the training script")
    options = parser.parse_args()
    if options.train:
        train(options.train)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        for index in range(options.runs):
            candidate = options.fault != "none" and index % 2 == 1
            capture(folder / f"run{index}", options.steps, options.fault if candidate else "none")
        runs = [folder / f"run{index}" for index in range(options.runs)]
        if options.fault == "none":
            compare(runs[:-1], runs[1:])
        else:
            compare(runs[0::2][: len(runs) // 2], runs[1::2])


if __name__ == "__main__":
    main()
