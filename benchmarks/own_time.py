"""What tpuprof's own functions take of the steps behind a capture: programs of the zoo with a clock around them.

    python benchmarks/own_time.py [NAME ...] [--steps 1500]

Two runs of one program differ by several percent, which hides what is below one. So each program trains once under
`tpuprof capture`, with a clock around what tpuprof calls at a graph cut and at an optimizer's step, and prints what
that takes of the steps behind the first quarter of all. The clock counts as tpuprof's. What graph cuts need in a rest
is native code of 1 to 2 us, and is not in it (`counting_steps.py`). Needs the `xla` extra.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from under_capture import captured_output

ZOO = Path(__file__).resolve().parent.parent / "scenarios" / "zoo"
# Steps of 5 ms of tracing; of 15 ms beside a busy device; two optimizers and cuts in 25 ms; many cuts in 2 ms.
PROGRAMS = ("tracing_deep", "device_healthy", "gan", "cuts_in_layers")

PROGRAM = """
import re, sys, time
from pathlib import Path
path, steps = Path(sys.argv[1]), int(sys.argv[2])
from tpuprof.instrument import sync_guard
from tpuprof.instrument.optimizer_steps import OptimizerHook
spent = [0.0]
def clocked(function):
    def timed(*args, **kwargs):
        began = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            spent[0] += time.perf_counter() - began
    return timed
sync_guard._tell_end = clocked(sync_guard._tell_end)
OptimizerHook._stepped = clocked(OptimizerHook._stepped)
class Marks(list):
    def append(self, now):
        super().append((now, spent[0]))
text = re.sub(r"(in range\\()\\d+\\):\\n", rf"\\g<1>{steps}):\\n", path.read_text())
text = text.replace("marks = []", "marks = Marks()").split("print(")[0]
if "marks = Marks()" not in text:
    raise SystemExit(f"{path} does not note when its steps end")
exec(compile(text, str(path), "exec"))
(began, before), (ended, after) = marks[steps // 4], marks[-1]
count = len(marks) - 1 - steps // 4
print((after - before) / (ended - began), (after - before) / count, (ended - began) / count)
"""


def main() -> None:
    """Measure each program and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=PROGRAMS, help="programs of scenarios/zoo")
    parser.add_argument("--steps", type=int, default=1500, help="steps to train for")
    options = parser.parse_args()
    for name in options.names:
        told = captured_output(PROGRAM, str(ZOO / name / "train.py"), str(options.steps))
        share, own, step = map(float, told.splitlines()[-1].split())
        print(f"{name:18} {share:.2%} of each step: {1e6 * own:.0f} us of {1e3 * step:.2f} ms", flush=True)


if __name__ == "__main__":
    main()
