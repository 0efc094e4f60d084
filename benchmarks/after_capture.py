"""What following a program costs it after its capture, per step: hooks on and off, in blocks of steps of one process.

    python benchmarks/after_capture.py [--seconds 60] [--repeats 3]

Two runs of one program differ by several percent for where its memory lies. So one process trains under `tpuprof
capture`. Behind the capture it takes tpuprof's hooks away for a block of steps (the graph-cut guard and the optimizer
hook), puts them back for the next one, and so on. A block is longer than following and resting take in turn. Prints the
median of how a block's mean step differs from that of the block before, without the slowest twentieth of each, over
shapes of programs: the smallest steps and the most graph cuts are the worst case. It does so by the wall clock and by
the CPU time of the training thread, in which all of following runs: other work of the machine disturbs that one less.
Needs the `xla` extra.
"""

from __future__ import annotations

import argparse
import statistics

from under_capture import last_line

# Name, layers, width, graph cuts per step (one in each layer, or one at the end), eager mode.
SHAPES = (
    ("one cut, small step", 3, 64, False, False),
    ("one cut, larger step", 6, 512, False, False),
    ("eleven cuts", 10, 64, True, False),
    ("eager mode", 3, 64, False, True),
)
# Time before blocks begin, which holds the capture, and time of a block (s).
WARM, BLOCK = 8.0, 1.5

PROGRAM = """
seconds, warm, block = more
blocks = []
on, ours, began = True, None, time.perf_counter()
changes = began + warm
while (now := time.perf_counter()) < began + seconds:
    if now >= changes:
        if ours is None:
            guard = extension._xla_step_marker
            own = original_cut()
            ours = dict(hooks)
        on = not on
        extension._xla_step_marker = guard if on else own
        hooks.clear()
        hooks.update(ours if on else {})
        first, changes = True, now + block
        blocks.append((on, [], []))
        cpu = time.thread_time()
    step()
    # The first step of a block pays for the change.
    if ours is not None and not first:
        blocks[-1][1].append(1e3 * (time.perf_counter() - now))
        blocks[-1][2].append(1e3 * (time.thread_time() - cpu))
    first, cpu = False, time.thread_time()
extension._xla_step_marker = guard
hooks.update(ours)
def compared(which):
    means = [(each[0], statistics.mean(sorted(each[which])[: len(each[which]) * 19 // 20])) for each in blocks[:-1]]
    off = statistics.median(mean for on, mean in means if not on)
    ratios = [(new / old) ** (1 if on else -1) for (_, old), (on, new) in zip(means, means[1:])]
    return [off * statistics.median(ratios), off]
print(json.dumps([compared(1), compared(2)]))
"""


def measured(shape: tuple[str, int, int, bool, bool], seconds: float) -> list[list[float]]:
    """The mean step with and without hooks (ms), by the wall clock and by the training thread's CPU time."""
    both: list[list[float]] = last_line(PROGRAM, *shape[1:], seconds, WARM, BLOCK)
    return both


def main() -> None:
    """Measure each shape and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    for shape in SHAPES:
        runs = [measured(shape, options.seconds) for _ in range(options.repeats)]
        wall = statistics.median(clock[1] for clock, _ in runs)
        print(f"{shape[0]:22} step {wall:6.2f} ms without hooks; with them", end="")
        for index, name in enumerate(("by the clock", "by the thread's CPU time")):
            more = [run[index][0] - run[index][1] for run in runs]
            shares = [each / run[0][1] for each, run in zip(more, runs, strict=True)]
            print(
                f" {statistics.median(shares):+.2%} ({min(shares):+.2%} to {max(shares):+.2%}), "
                f"{1e3 * statistics.median(more):+.0f} us {name};",
                end="",
            )
        print(flush=True)


if __name__ == "__main__":
    main()
