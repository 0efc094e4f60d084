"""What watching costs: CPU time and wall time per step, bare and watched, in pairs of blocks of one process.

    python benchmarks/watch_overhead.py [PAIRS]

First in short blocks that differ in the training thread's hooks alone, then in long blocks that are watched or not.

Blocks alternate as bare, watched, watched, bare, so that drift cancels. CPU time is of the whole process, the
watching thread included. Each block begins with steps that are not measured, until a watch has done what it does
once, in its first tick: that is paid once per run, and is printed apart. The watching thread's own CPU time has no
noise of training in it, so it is the sharper figure. Also measures bytes per step after packing, and a refresh of the
live view with 1,000 hosts. Needs the `xla` extra.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STEPS_PER_BLOCK = 160
# Of blocks that differ in the hooks of the training thread alone: short ones, so that drift of the machine cancels.
HOOKED_STEPS, HOOKED_WARM = 20, 4
MOST_HOOKED_PAIRS = 400
# A watch ticks first after 0.8 s, which is some 65 steps.
WARM_STEPS = 120
HOSTS = 1000

TRAINING = """
import json, sys, tempfile, time
import torch, torch_xla
import tpuprof
from pathlib import Path
from tpuprof.watch.watcher import Watcher

pairs, steps, warm = map(int, sys.argv[1:])
ticked, tick = [], Watcher._tick

def timed(watcher):
    began = time.thread_time()
    tick(watcher)
    ticked.append((time.thread_time() - began, watcher.collector.steps))

Watcher._tick = timed
torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.Sequential(*[torch.nn.Linear(384, 384) for _ in range(12)]).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batches = torch.randn(warm + steps, 32, 384)

def block(loader):
    for at, batch in enumerate(loader):
        if at == warm:
            loss.item()
            wall, cpu, thread = time.perf_counter(), time.process_time(), time.thread_time()
        optimizer.zero_grad()
        loss = model(batch.to(device)).square().mean()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
    loss.item()
    spent = time.process_time() - cpu, time.perf_counter() - wall, time.thread_time() - thread
    return [each / steps for each in spent]

def loader():
    return torch.utils.data.DataLoader(batches, batch_size=None)

for _ in range(3):
    block(loader())
"""
BLOCKS = f"""{TRAINING}
folders, starts = [], []
def watched():
    # A job of its own each time: the second attempt of a job packs what the first one left.
    folders.append(tempfile.mkdtemp())
    began = time.process_time()
    watching = tpuprof.watch(folders[-1], capture=False)
    starts.append(time.process_time() - began)
    try:
        return block(loader())
    finally:
        watching.stop()

result = []
for _ in range(pairs):
    a, b, c, d = block(loader()), watched(), watched(), block(loader())
    result.append([[x + y for x, y in zip(a, d)], [x + y for x, y in zip(b, c)]])
size = sum(each.stat().st_size for folder in folders for each in Path(folder, "ledgers").iterdir())
# The first tick of a watch does what is done once; the last is that of `stop`.
print(json.dumps({{"pairs": result, "ledger_bytes": size, "ticks": ticked, "starts": starts}}))
"""
HOOKS = f"""{TRAINING}
watching = tpuprof.watch(tempfile.mkdtemp(), capture=False)._watcher

def watched():
    watching.follower.install()
    watching.timers.install()
    try:
        return block(loader())
    finally:
        watching.follower.remove()
        watching.timers.remove()

watching.follower.remove()
watching.timers.remove()
result = []
for _ in range(pairs):
    a, b, c, d = block(loader()), watched(), watched(), block(loader())
    result.append([[x + y for x, y in zip(a, d)], [x + y for x, y in zip(b, c)]])
watching.stop()
print(json.dumps({{"pairs": result}}))
"""


def run(program: str, *numbers: int) -> dict[str, Any]:
    """What one of the programs above prints."""
    environment = {
        **os.environ,
        "PJRT_DEVICE": "CPU",
        "NPROC": "1",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-c", program, *map(str, numbers)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def overhead(pairs: int) -> None:
    """Blocks of training that is watched as a whole, and the watching thread's own time in them."""
    found = run(BLOCKS, pairs, STEPS_PER_BLOCK, WARM_STEPS)
    print(f"watched as a whole, {pairs} pairs of {2 * STEPS_PER_BLOCK} steps:")
    compare(found["pairs"])
    own_thread(found, statistics.median(bare[0] for bare, _ in found["pairs"]) / 2)


def hooks(pairs: int) -> None:
    """Blocks that differ in the hooks of the training thread alone: the watching thread runs in all."""
    found = run(HOOKS, pairs, HOOKED_STEPS, HOOKED_WARM)
    print(f"hooks of the training thread alone, {pairs} pairs of {2 * HOOKED_STEPS} steps:")
    compare(found["pairs"])


def compare(pairs: list[list[list[float]]]) -> None:
    """Print medians of the paired ratios, each with its 95 % interval by order statistics, which no outlier moves."""
    for at, name in enumerate(("CPU time of the process", "wall time", "CPU time of the training thread")):
        ratios = sorted(100 * (watched[at] / bare[at] - 1) for bare, watched in pairs)
        half, reach = len(ratios) / 2, 0.98 * len(ratios) ** 0.5
        low, high = ratios[max(round(half - reach) - 1, 0)], ratios[min(round(half + reach), len(ratios) - 1)]
        bare = statistics.median(bare[at] for bare, _ in pairs) / 2
        found = f"{statistics.median(ratios):+.2f} % ({low:+.2f} to {high:+.2f} %)"
        print(f"  {name}: {found} of {bare * 1e3:.2f} ms per step")


def own_thread(found: dict[str, Any], bare: float) -> None:
    """Print what the watching thread itself used per step, as a share of the bare step's CPU time."""
    ticks = found["ticks"]
    # Ticks that found new steps, each with how many: a watch's counter begins again at 0.
    with_steps = [
        (seconds, steps - before)
        for (_, before), (seconds, steps) in itertools.pairwise(ticks)
        if steps > before > 0
    ]
    per_step = sum(seconds for seconds, _ in with_steps) / sum(steps for _, steps in with_steps)
    print(
        f"watching thread in that run: {per_step * 1e6:.0f} us CPU per step ({100 * per_step / bare:.2f} % of the bare "
        f"step's CPU time), starting {1e3 * found['starts'][0]:.0f} ms once"
    )


def per_step_cost() -> None:
    """The work that a step itself does, and what the thread does per second, without any noise of training."""
    from tests.watch.simulated import Training

    with tempfile.TemporaryDirectory() as folder:
        training = Training(Path(folder), step_seconds=0.25)
        collector = training.collector
        began = time.process_time()
        for step in range(20_000):
            collector.boundary(step, None, step * 250_000_000)
            if step % 4 == 3:
                collector._ended.clear()
        boundary = (time.process_time() - began) / 20_000
        began = time.process_time()
        for _ in range(2000):
            training.step()
        flushed = (time.process_time() - began) / 2000
        training.ledger.close("exit")
        size = sum(each.stat().st_size for each in training.ledger.path.parent.iterdir())
        print(
            f"training thread: {boundary * 1e6:.1f} us per step; watching thread: {flushed * 1e6:.0f} us per flush"
        )
        print(f"ledger: {size / training.number:.1f} bytes per step after packing")


def refresh() -> None:
    """A refresh of the live view with 1,000 hosts, the first of them with 100,000 steps."""
    from tests.watch.simulated import Training
    from tpuprof.watch.follow import picture, read_jobs

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        training = Training(folder)
        training.ledger.path = folder / "ledgers" / "p0"
        for at in range(100_000):
            training.step() if at % 50 == 0 else training.collector.boundary(at, None, at * 26 * 10**9)
        training.collector.flush()
        training.ledger.close("exit")
        (folder / "status").mkdir()
        for rank in range(HOSTS):
            facts = {
                "job": "month",
                "host": f"h{rank}",
                "rank": rank,
                "wall_seconds": time.time(),
                "step": 100,
            }
            more = {
                "own_work_seconds": 0.2 + rank / 1e6,
                "own_best_seconds": 0.2,
                "median_step_seconds": 0.25,
            }
            (folder / "status" / f"p{rank}.json").write_text(json.dumps(facts | more))
        read_jobs(folder)
        times = []
        for _ in range(5):
            began, cpu = time.perf_counter(), time.process_time()
            picture(read_jobs(folder))
            times.append((time.perf_counter() - began, time.process_time() - cpu))
        wall, cpu = (statistics.median(each) for each in zip(*times, strict=True))
        print(f"refresh with {HOSTS} hosts: {wall:.2f} s wall, {cpu:.2f} s CPU time")


def main() -> None:
    """Measure and print."""
    sys.path.insert(0, str(ROOT))
    per_step_cost()
    refresh()
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    hooks(min(10 * pairs, MOST_HOOKED_PAIRS))
    overhead(pairs)


if __name__ == "__main__":
    main()
