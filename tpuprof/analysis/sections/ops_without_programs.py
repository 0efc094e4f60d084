"""What the verdict adds where an eager framework calls far more ops than programs run: most may compute on the host."""

from __future__ import annotations

from tpuprof.model.host_run import HostRun
from tpuprof.units import counted

# Ops per program from which most of them do not become one (ratio). Where every op is handed over by itself it is about
# one, and where ops were deferred and fused it was three in a small model. A judgement.
OPS_PER_PROGRAM = 8.0
SAID = (
    " The host calls {ops} per step, which become {programs}: unless ops are deferred and fused, most of them "
    "compute on the host, with tensors in its memory."
)


def said_of_ops_without_programs(hosts: list[HostRun]) -> str:
    """The sentence, where calling ops is the verdict; empty where most ops become programs."""
    found = max(
        (each.eager for each in hosts if each.eager is not None), key=lambda each: each.ops, default=None
    )
    if found is None or found.optimizer_ps is None or not found.programs:
        return ""
    if found.ops < OPS_PER_PROGRAM * found.programs:
        return ""
    return SAID.format(
        ops=counted(round(found.ops), "op"), programs=counted(max(round(found.programs), 1), "program")
    )
