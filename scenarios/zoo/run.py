"""Runs programs that know nothing of tpuprof, and says which were captured, unchanged and named right.

    python scenarios/zoo/run.py [NAME ...] [--only TEXT] [--fast] [--again] [--cures] [--cost [--pairs N]] [--own]

Results are kept, one file per program, so that a broken-off run goes on where it stopped; `--again` measures again, and
`--judge` analyses kept captures again. `--cost` measures what tpuprof costs steps outside the capture, and nothing
else: a bare and a captured run of each program take turns. `--own` samples how much of those steps is tpuprof's own
work. At the end docs/zoo.md is written. Exit status: 0 if no program is wrong.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from runner import cures, own_share, page, turns
from runner.judge import RIGHT, UNDECIDED
from runner.keeper import examine, judge_again
from runner.result import Result, kept
from runner.truth import Truth, load, names

# Programs that may come out undecided.
UNDECIDED_AT_MOST = 2


def main() -> int:
    """Run what is asked for; returns the exit status."""
    options = _options()
    options.cures |= options.cures_only
    results = []
    for name in options.names or names():
        truth = load(name)
        if options.only not in name or (options.fast and not truth.fast):
            continue
        if options.cures and not truth.missing and (options.again or not cures.kept(truth)):
            cures.measure(truth)
        if options.cures_only:
            print(f"{name:26} {cures.text(truth)}", flush=True)
            continue
        if options.cost or options.own:
            _measure_cost(truth, options)
            continue
        result = _result(truth, options)
        result.save()
        print(page.line(truth, result), flush=True)
        results.append(result)
    if not options.no_page:
        page.write()
    cost, sentence = page.outside_steps([load(name) for name in names()])
    print(sentence, flush=True)
    return 0 if acceptable(results) and not (cost and cost.word == "slow") else 1


def acceptable(results: list[Result]) -> bool:
    """Whether none is wrong, and no more are undecided than may be."""
    ran = [result for result in results if not result.skipped]
    undecided = sum(result.word == UNDECIDED for result in ran)
    return all(result.word in (RIGHT, UNDECIDED) for result in ran) and undecided <= UNDECIDED_AT_MOST


def _result(truth: Truth, options: argparse.Namespace) -> Result:
    result = kept(truth) if not options.again else None
    if result is not None and options.judge and not result.skipped:
        judge_again(truth, result)
    if result is None or (result.skipped and not truth.missing):
        result = examine(truth, options.again)
    return result


def _measure_cost(truth: Truth, options: argparse.Namespace) -> None:
    if truth.missing or truth.own_profile or not truth.captured:
        return
    if options.cost and (options.again or turns.kept(truth) is None):
        turns.measure(truth, options.pairs)
    if options.own and (options.again or own_share.kept(truth) is None):
        own_share.measure(truth)
    told = own_share.kept(truth) if options.own else page.cost_of(truth)
    print(f"{truth.name:26} {told or 'too few steps behind the capture'}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="programs to run; all by default")
    parser.add_argument("--only", default="", metavar="TEXT", help="programs whose name contains TEXT")
    parser.add_argument("--fast", action="store_true", help="only the few that `make test` runs")
    parser.add_argument("--again", action="store_true", help="forget what was measured before")
    parser.add_argument(
        "--pairs", type=int, default=1, help="with --cost, times each is run bare and captured"
    )
    parser.add_argument(
        "--cost", action="store_true", help="measure what tpuprof costs steps outside the capture"
    )
    parser.add_argument(
        "--own",
        action="store_true",
        help="sample how much of the steps behind the capture is tpuprof's own work",
    )
    parser.add_argument("--cures", action="store_true", help="measure what the cures save as well")
    parser.add_argument("--cures-only", action="store_true", help="measure the cures and nothing else")
    parser.add_argument("--judge", action="store_true", help="analyze kept captures again instead of running")
    parser.add_argument("--no-page", action="store_true", help="leave docs/zoo.md as it is")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
