"""Flags of the TPU compiler that are worth a try, and which of them the installed libtpu knows."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, replace

from tpuprof.preflight.compiler import CompileOptions, probe_command
from tpuprof.preflight.search.choices import FLAG, FLAG_VARIABLE, Choice
from tpuprof.preflight.targets import Target

_UNKNOWN = re.compile(r"Unknown command line flag '([\w-]+)'")
_NAME = re.compile(r"--([\w-]+)=")
_PROBE_LIMIT_S = 600
_MAXTEXT = "MaxText, benchmarks/xla_flags_library.py"
_SAME_SUMS = "none meant: other tiles and orders of sums may round differently"


@dataclass(frozen=True)
class Flag:
    """Flags that belong together. With `collectives` they matter only to a program that has some.

    `source` is where they are documented, `group` what of which only one is tried at a time.
    """

    name: str
    text: str
    what: str
    source: str
    group: str
    numerics: str = _SAME_SUMS
    collectives: bool = False

    @property
    def choice(self) -> Choice:
        """The flag as a search tries it."""
        return Choice(self.name, self.text, FLAG)

    @property
    def names(self) -> set[str]:
        """Names of the compiler's options in it."""
        return set(_NAME.findall(self.text))


def _vmem(kib: int) -> Flag:
    return Flag(
        f"scoped-vmem-{kib >> 10}M", f"--xla_tpu_scoped_vmem_limit_kib={kib}",
        "on-chip memory that one op may use; the rest holds what is fetched ahead", _MAXTEXT, "scoped-vmem",
    )  # fmt: skip


def _fused(name: str, kinds: tuple[str, ...]) -> Flag:
    each = [
        f"--xla_tpu_enable_async_collective_fusion_fuse_{kind}=true --xla_enable_async_{kind}=true"
        for kind in kinds
    ]
    text = (
        "--xla_tpu_enable_async_collective_fusion=true --xla_tpu_enable_async_collective_fusion_multiple_steps=true "
        f"--xla_tpu_overlap_compute_collective_tc=true {' '.join(each)}"
    )
    return Flag(name, text, "collectives run beside compute", _MAXTEXT, "async-collectives", collectives=True)


FLAGS: tuple[Flag, ...] = (
    _vmem(98304),
    _vmem(65536),
    _vmem(32768),
    Flag(
        "latency-hiding-rerun", "--xla_latency_hiding_scheduler_rerun=2",
        "the scheduler runs again with less memory until the program fits", "OpenXLA, flags guidance", "scheduler",
    ),
    Flag(
        "latency-hiding", "--xla_tpu_enable_latency_hiding_scheduler=true",
        "the scheduler puts transfers beside compute", "OpenXLA, flags guidance", "scheduler",
    ),
    _fused("async-all-gather", ("all_gather",)),
    _fused("async-all-reduce", ("all_reduce",)),
    Flag(
        "all-reduce-overlap",
        "--xla_tpu_enable_data_parallel_all_reduce_opt=true --xla_tpu_data_parallel_opt_different_sized_ops=true",
        "reductions of gradients run beside the backward", _MAXTEXT, "all-reduce-overlap",
        "none meant: gradients may be summed in another order", True,
    ),
)  # fmt: skip


def flag_of(choice: Choice) -> Flag | None:
    """The row of a choice; None where it is no flag of the table."""
    return next((each for each in FLAGS if each.choice == choice), None)


def known_flags(flags: tuple[Flag, ...], target: Target, options: CompileOptions) -> tuple[Flag, ...]:
    """Those of which the installed libtpu knows every part, none where it does not answer. It is asked once."""
    given = options.variables().get(FLAG_VARIABLE, "")
    text = " ".join([given, *(each.text for each in flags)])
    asked = replace(options, environment={**options.environment, FLAG_VARIABLE: text})
    try:
        done = subprocess.run(
            probe_command([target], options), env=asked.variables(), capture_output=True, text=True,
            timeout=_PROBE_LIMIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return ()
    unknown = set(_UNKNOWN.findall(done.stdout + done.stderr))
    if done.returncode and not unknown:
        return ()
    return tuple(each for each in flags if not each.names & unknown)
