"""Collectives that a SparseCore runs stand two computations deeper than others, and count once."""

from pathlib import Path

from tests.preflight import programs
from tpuprof.decode.hlo_text import parse_hlo_text
from tpuprof.preflight.collectives import Collectives
from tpuprof.preflight.hlo_report import hlo_report
from tpuprof.preflight.program_files import Program
from tpuprof.preflight.schedule import Work, play
from tpuprof.preflight.targets import parse_target

WEIGHT, WHOLE = "bf16[512,1024]{1,0:T(8,128)(2,1)}", "bf16[2048,1024]{1,0:T(8,128)(2,1)}"
ON_SPARSE_CORE = f"""%called (p: bf16[512,1024]) -> bf16[2048,1024] {{
  %p = {WEIGHT} parameter(0)
  ROOT %all-gather.1 = {WHOLE} all-gather(%p), channel_id=3, replica_groups=[1,4]<=[4], dimensions={{0}}
}}, execution_thread="sparsecore"

%wrapped (q: bf16[512,1024]) -> bf16[2048,1024] {{
  %q = {WEIGHT} parameter(0)
  ROOT %all-gather.2.cloned.1 = {WHOLE} call(%q), to_apply=%called
}}, execution_thread="sparsecore"

"""
ENTRY = f"""  %w = {WEIGHT} parameter(0)
  %x = f32[1024]{{0:T(1024)}} parameter(1)
  %start = (({WEIGHT}), {WHOLE}) async-start(%w), async_execution_thread="sparsecore", calls=%wrapped
  %n = f32[1024]{{0:T(1024)}} negate(%x){programs.cycles(programs.MS_V5E)}
  %done = {WHOLE} async-done(%start)
  ROOT %r = f32[1024]{{0:T(1024)}} add(%n, %n){programs.cycles(1500)}"""


def test_a_gather_on_a_sparse_core_is_played_and_counted_once():
    module = programs.entry(ENTRY, ON_SPARSE_CORE)
    schedule = play(module, parse_target("v5e-4"))
    assert [(each.kind, each.bytes, each.role) for each in schedule.collectives] == [
        ("all-gather", 4 << 20, "start")
    ]
    assert schedule.transfers[0].work is Work.COLLECTIVE
    # It runs beside the first op, which takes longer.
    assert schedule.totals[Work.COLLECTIVE] == 0
    assert schedule.hidden[Work.COLLECTIVE] == schedule.transfers[0].duration > 0
    program = Program("step", Path("step.txt"), "hlo-text", b"", module, partitions=4)
    assert hlo_report(program).collectives == {"all-gather": {"count": 1, "bytes": 4 << 20}}


def test_computations_that_call_each_other_in_a_circle_hold_none():
    text = "%a (p: f32[8]) -> f32[8] {\n  %p = f32[8] parameter(0)\n  ROOT %c = f32[8] call(%p), to_apply=%a\n}\n"
    module = parse_hlo_text(f"HloModule m\n\n{text}")
    assert Collectives(module, 4).of(module.computations["a"].instructions["c"]) is None
    assert Collectives(module, 4).within() == set()
