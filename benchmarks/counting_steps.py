"""What counting steps costs a program that is followed no more: natively, in Python, and not at all, step by step.

    python benchmarks/counting_steps.py [--seconds 30]

After its capture a program's short steps are only counted (`tpuprof/capture/rests.py`). One process trains under
`tpuprof capture`, and behind the capture each step has at random tpuprof's hooks as they are, the same in Python, or
none. So whatever else the machine does meets all three alike. Prints the mean CPU time of the training thread per step
and what counting adds to it, without the slowest twentieth of each, with the standard error, over shapes of programs.
Needs the `xla` extra.
"""

from __future__ import annotations

import argparse

from under_capture import last_line

# Name, layers, width, graph cuts per step (one in each layer, or one at the end).
SHAPES = (
    ("one cut, small step", 3, 64, False),
    ("one cut, larger step", 6, 256, False),
    ("eleven cuts", 10, 64, True),
)

PROGRAM = """
(seconds,) = more
# The first rest begins 32 steps behind the capture.
while not (sync_guard._ended and sync_guard._ended[0].__self__.rest.on):
    step()
rest = sync_guard._ended[0].__self__.rest
guard, hook = extension._xla_step_marker, next(iter(hooks.values()))
own = original_cut()
key = next(iter(hooks))
# As it is, but for the number of steps.
rest._count.begin("optimizer", 1, 10**7, 1e9)
python = step_count.PythonStepCount(time.monotonic, print)
called = python.of("optimizer").passes
python.begin("optimizer", 1, 10**7, 1e9)
slow = sync_guard._usual(own)
compiling = torch.compiler.is_dynamo_compiling
def in_python(_optimizer, _args, _kwargs):
    if compiling():
        return
    called()
modes = {"none": (own, {}), "native": (guard, {key: hook}), "python": (slow, {key: in_python})}
took = {name: [] for name in modes}
chance, ends = random.Random(1), time.monotonic() + seconds
while time.monotonic() < ends:
    name = chance.choice([*modes])
    extension._xla_step_marker, now = modes[name]
    hooks.clear()
    hooks.update(now)
    began = time.thread_time()
    step()
    took[name].append(time.thread_time() - began)
extension._xla_step_marker = guard
hooks.clear()
hooks[key] = hook
rest.follow()
def mean(values):
    kept = sorted(values)[: len(values) * 19 // 20]
    return 1e6 * statistics.mean(kept), 1e6 * statistics.stdev(kept) / len(kept) ** 0.5
print(json.dumps({name: mean(values) for name, values in took.items()}))
"""


def measured(shape: tuple[str, int, int, bool], seconds: float) -> dict[str, tuple[float, float]]:
    """Mean CPU time per step and its standard error (us), by what counts."""
    found: dict[str, tuple[float, float]] = last_line(PROGRAM, *shape[1:], False, seconds)
    return found


def main() -> None:
    """Measure each shape and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    for shape in SHAPES:
        found = measured(shape, options.seconds)
        bare, error = found.pop("none")
        print(f"{shape[0]:22} {bare:7.0f} ± {error:.0f} us", end="")
        for name, (mean, its) in found.items():
            more, both = mean - bare, (error**2 + its**2) ** 0.5
            print(f"; {name} {more:+.0f} ± {both:.0f} us, {more / bare:+.1%}", end="")
        print(flush=True)


if __name__ == "__main__":
    main()
