"""Small compiled programs, written as the TPU compiler prints them, and graphs around them."""

from tpuprof.decode import hlo_pb2
from tpuprof.decode.hlo import HloModule
from tpuprof.decode.hlo_text import parse_hlo_text
from tpuprof.preflight.graphs import Graph

MS_V5E = 1_500_000  # cycles of a millisecond on v5e


def cycles(count: int) -> str:
    return f', backend_config={{"window_config":{{"estimated_cycles":"{count}"}}}}'


def entry(body: str, before: str = "", header: str = "") -> HloModule:
    text = f"HloModule step.1, is_scheduled=true{header}\n\n{before}\nENTRY %main (a: f32[1024]) -> f32[1024] {{\n{body}\n}}\n"
    return parse_hlo_text(text)


# An all-gather of 4 MiB hidden behind two fusions of 1 ms each; the parts of it in between carry its channel.
GATHERED = """%start (p: bf16[512,1024]) -> (bf16[512,1024], bf16[2048,1024]) {
  %p = bf16[512,1024]{1,0} parameter(0)
  %all-gather.1 = bf16[2048,1024]{1,0} all-gather(%p), channel_id=5, replica_groups={{0,1,2,3}}, dimensions={0}
  ROOT %c = (bf16[512,1024]{1,0}, bf16[2048,1024]{1,0}) custom-call(%all-gather.1), custom_call_target="AsyncCollectiveStart"
}
%part (p: bf16[512,1024]) -> bf16[512,1024] {
  %p = bf16[512,1024]{1,0} parameter(0)
  ROOT %all-gather.2 = bf16[2048,1024]{1,0} all-gather(%p), channel_id=5, replica_groups={{0,1,2,3}}, dimensions={0}
}
%done (p: bf16[2048,1024]) -> bf16[2048,1024] {
  %p = bf16[2048,1024]{1,0} parameter(0)
  %all-gather.3 = bf16[2048,1024]{1,0} all-gather(%p), channel_id=5, replica_groups={{0,1,2,3}}, dimensions={0}
  ROOT %c = bf16[2048,1024]{1,0} custom-call(%all-gather.3), custom_call_target="AsyncCollectiveDone"
}
%scatter (p: f32[4096]) -> f32[1024] {
  %p = f32[4096]{0} parameter(0)
  %r = f32[4096]{0} all-reduce(%p), channel_id=9, replica_groups=[1,4]<=[4], to_apply=%add
  %zero = s32[] constant(0)
  ROOT %s = f32[1024]{0} dynamic-slice(%r, %zero), dynamic_slice_sizes={1024}
}
"""


def gathered(compute_ms: float = 1.0) -> HloModule:
    each = cycles(round(compute_ms * MS_V5E))
    return entry(
        f"""  %w = bf16[512,1024]{{1,0:T(8,128)(2,1)}} parameter(0)
  %copy.1 = bf16[512,1024]{{1,0:T(8,128)(2,1)S(1)}} bitcast(%w)
  %async-collective-start = (bf16[512,1024]{{1,0}}, bf16[2048,1024]{{1,0}}) fusion(%copy.1), kind=kCustom, calls=%start
  %fusion.1 = bf16[512,1024]{{1,0}} fusion(%copy.1), kind=kOutput, calls=%part{each}
  %async-collective-done = bf16[2048,1024]{{1,0}} fusion(%fusion.1), kind=kCustom, calls=%done
  %g = f32[4096]{{0}} fusion(%async-collective-done), kind=kLoop, calls=%other{each}
  ROOT %out = f32[1024]{{0}} fusion(%g), kind=kCustom, calls=%scatter""",
        GATHERED,
    )


def offloaded(compute_ms: float) -> HloModule:
    """15 MB to the host and back, with `compute_ms` of work beside each way."""
    each = cycles(round(compute_ms * MS_V5E))
    size = "f32[3750000]"
    return entry(
        f"""  %a = {size}{{0:T(1024)}} parameter(0)
  %copy-start = ({size}{{0:S(5)}}, {size}{{0}}, u32[]{{:S(2)}}) copy-start(%a)
  %work.1 = f32[8]{{0}} fusion(%a), kind=kLoop, calls=%f{each}
  %copy-done = {size}{{0:S(5)}} copy-done(%copy-start)
  %copy-start.1 = ({size}{{0}}, {size}{{0:S(5)}}, u32[]{{:S(2)}}) copy-start(%copy-done)
  %work.2 = f32[8]{{0}} fusion(%a), kind=kLoop, calls=%f{each}
  %copy-done.1 = {size}{{0}} copy-done(%copy-start.1)
  ROOT %out = f32[8]{{0}} fusion(%copy-done.1, %work.1, %work.2), kind=kLoop, calls=%f{each}"""
    )


def looped(trips: int) -> HloModule:
    """A loop of `trips` rounds, each a fusion of 1 ms on v5e."""
    before = f"""%body (arg: (s32[], f32[2])) -> (s32[], f32[2]) {{
  %arg = (s32[], f32[2]) parameter(0)
  %one = s32[] constant(1)
  %i = s32[] get-tuple-element(%arg), index=0
  %x = f32[2] get-tuple-element(%arg), index=1
  %next = s32[] add(%i, %one){cycles(0)}
  %y = f32[2] fusion(%x), kind=kLoop, calls=%f{cycles(MS_V5E)}
  ROOT %out = (s32[], f32[2]) tuple(%next, %y)
}}

%condition (arg: (s32[], f32[2])) -> pred[] {{
  %arg = (s32[], f32[2]) parameter(0)
  %i = s32[] get-tuple-element(%arg), index=0
  %limit = s32[] constant({trips})
  ROOT %c = pred[] compare(%i, %limit), direction=LT
}}
"""
    return entry(
        """  %x = f32[2] parameter(0)
  %start = s32[] constant(0)
  %tuple = (s32[], f32[2]) tuple(%start, %x)
  %while.1 = (s32[], f32[2]) while(%tuple), condition=%condition, body=%body
  ROOT %y = f32[2] get-tuple-element(%while.1), index=1""",
        before,
    )


LOOPED_GATHER = """HloModule step.1, is_scheduled=true

%body (arg: (s32[], bf16[512,1024])) -> (s32[], bf16[512,1024]) {
  %arg = (s32[], bf16[512,1024]{1,0}) parameter(0)
  %one = s32[] constant(1)
  %i = s32[] get-tuple-element(%arg), index=0
  %x = bf16[512,1024]{1,0} get-tuple-element(%arg), index=1
  %next = s32[] add(%i, %one)
  %g = bf16[2048,1024]{1,0} all-gather(%x), channel_id=5, replica_groups={{0,1,2,3}}, dimensions={0}
  ROOT %out = (s32[], bf16[512,1024]{1,0}) tuple(%next, %x)
}

%condition (arg: (s32[], bf16[512,1024])) -> pred[] {
  %arg = (s32[], bf16[512,1024]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%arg), index=0
  %limit = s32[] constant(3)
  ROOT %c = pred[] compare(%i, %limit), direction=LT
}

ENTRY %main (w: bf16[512,1024]) -> bf16[512,1024] {
  %w = bf16[512,1024]{1,0} parameter(0)
  %start = s32[] constant(0)
  %tuple = (s32[], bf16[512,1024]{1,0}) tuple(%start, %w)
  %while.1 = (s32[], bf16[512,1024]{1,0}) while(%tuple), condition=%condition, body=%body
  ROOT %y = bf16[512,1024]{1,0} get-tuple-element(%while.1), index=1
}
"""


def graph(**changes: object) -> Graph:
    """A traced graph with one parameter, `layers.3.up.weight`."""
    proto = hlo_pb2.HloModuleProto(name=b"SyncTensorsGraph.1", entry_computation_id=1)
    computation = proto.computations.add(name=b"main", id=1, root_id=1)
    parameter = computation.instructions.add(name=b"p0", opcode=b"parameter", id=1)
    parameter.shape.element_type = 16
    parameter.shape.dimensions.extend([2048, 1024])
    parameter.sharding.type = 3
    parameter.sharding.tile_assignment_dimensions.extend([4, 1])
    made = Graph(1, "abc", "step", 2, proto.SerializeToString(), ["layers.3.up.weight"], spmd=True)
    for name, value in changes.items():
        setattr(made, name, value)
    return made
