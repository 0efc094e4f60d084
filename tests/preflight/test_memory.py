"""What a program needs of HBM, from the compiler's sizes and from its refusals."""

from tests.preflight import programs
from tpuprof.preflight.memory import on_chip_shortage, read_memory, read_refusal
from tpuprof.preflight.targets import parse_target

V5E = parse_target("v5e-4")
GIB = 1 << 30

# As libtpu 0.0.21 words it; numbers and names are this test's.
REFUSED = """RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 20.00G of 15.75G hbm. Exceeded hbm capacity by 4.25G.

Total hbm usage >= 20.25G:
    reserved        258.00M
    program          12.00G
    arguments         8.00G

Output size 9.50G; shares 8.00G with arguments.

Program hbm requirement 12.00G:
    HLO temp         12.00G (100.0% utilization)

  Largest program allocations in hbm:

  1. Size: 2.00G
     Operator: op_name="aten__matmul" source_file="/home/me/train.py" source_line=35 source_end_line=35
     Shape: bf16[128,2048,4096]{1,2,0:T(8,128)(2,1)}
     Unpadded size: 2.00G
     XLA label: fusion.785 = fusion(copy.1), kind=kOutput, calls=fused_computation.993
     Allocation type: HLO temp
     ==========================

  2. Size: 512.00M
     Shape: bf16[64,2048,2048]{1,2,0:T(8,128)(2,1)}
     XLA label: copy-start.8 = copy-start(copy.448)
     Allocation type: HLO temp
     ==========================
"""
REFUSED_NEWER = (
    "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO "
    "temporaries (29.20G) exceeds available HBM (15.75G). HLO module: SyncTensorsGraph.4555."
)


def test_a_refusal_names_shortfall_and_buffers():
    memory = read_refusal(REFUSED, programs.graph(), V5E)
    assert not memory.fits
    assert memory.kinds == {
        "arguments": 8 * GIB, "temporaries": 12 * GIB, "outputs": round(9.5 * GIB), "aliased": 8 * GIB,
    }  # fmt: skip
    # 20 GiB as the compiler counts, and 1.5 GiB of outputs that take no argument's buffer.
    assert memory.total == round(21.5 * GIB)
    assert memory.shortfall == round(21.5 * GIB) - round(15.75 * GIB)
    first = memory.buffers[0]
    assert (first.name, first.bytes, first.source, first.op_name) == (
        "fusion.785", 2 * GIB, "/home/me/train.py:35", "aten__matmul",
    )  # fmt: skip
    assert memory.buffers[1].bytes == 512 << 20


def test_a_newer_compilers_refusal_is_read_too_and_buffers_come_from_the_graph():
    memory = read_refusal(REFUSED_NEWER, programs.graph(), V5E)
    assert memory.total == round(29.2 * GIB)
    assert memory.shortfall == round(29.2 * GIB) - round(15.75 * GIB)
    # The one weight, 2048 x 1024 of two bytes over four devices.
    assert [(each.name, each.bytes) for each in memory.buffers] == [("layers.3.up.weight", 1 << 20)]


def test_on_chip_memory_that_is_short_is_no_shortage_of_hbm():
    text = (
        "RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem while allocating on stack for %custom-call.299. "
        "Scoped allocation with size 36.09M and limit 32.00M exceeded scoped vmem limit by 4.09M."
    )
    said = on_chip_shortage(text)
    assert "VMEM: it needs 36.09 MiB of 32.00 MiB" in said and "HBM is not what is short" in said
    assert "--xla_tpu_scoped_vmem_limit_kib" in said
    # The flag limits what an op takes of VMEM: it gives no SMEM.
    assert "scoped_vmem" not in on_chip_shortage(text.replace("space vmem", "space smem"))
    assert not on_chip_shortage(REFUSED)
    assert not on_chip_shortage(REFUSED_NEWER)


def test_a_refusal_in_words_never_seen_still_refuses():
    memory = read_refusal("RESOURCE_EXHAUSTED: no room", programs.graph(), V5E)
    assert not memory.fits
    assert memory.total is None


def test_sizes_of_a_program_that_fits_and_of_one_whose_outputs_do_not():
    module = programs.offloaded(1.0)
    stats = {
        "argument": 6 * GIB,
        "output": 5 * GIB,
        "alias": 4 * GIB,
        "temp": 2 * GIB,
        "generated_code": GIB // 2,
    }
    memory = read_memory({**stats, "host_temp": 123}, module, programs.graph(), V5E)
    assert memory.total == round(9.5 * GIB)
    assert memory.fits
    assert memory.kinds["host"] == 123
    large = read_memory({**stats, "output": 13 * GIB}, module, programs.graph(), V5E)
    assert not large.fits
    assert large.shortfall == round(17.5 * GIB) - V5E.chip.hbm_usable_bytes


def test_largest_buffers_are_arguments_outputs_and_what_lives_at_the_peak():
    module = programs.entry(
        """  %w = bf16[2048,1024]{1,0:T(8,128)(2,1)} parameter(0)
  %big = f32[4096,1024]{1,0:T(8,128)} fusion(%w), kind=kLoop, calls=%f
  %small = f32[1024]{0:T(1024)} fusion(%big), kind=kLoop, calls=%f
  %late = f32[2048,1024]{1,0:T(8,128)} fusion(%small), kind=kLoop, calls=%f
  %vmem = f32[512,1024]{1,0:T(8,128)S(1)} fusion(%late), kind=kLoop, calls=%f
  %loss = f32[128]{0:T(128)} fusion(%vmem), kind=kLoop, calls=%f, metadata={op_name="loss" source_file="t.py" source_line=9}
  %copy = f32[128]{0:T(128)} copy(%loss)
  ROOT %out = (f32[128]{0:T(128)}) tuple(%copy)"""
    )
    zero = dict.fromkeys(("argument", "output", "alias", "temp", "generated_code"), 0)
    buffers = read_memory(zero, module, programs.graph(), V5E).buffers
    assert [(each.kind, each.name, each.bytes) for each in buffers] == [
        ("temporary", "big", 16 << 20),
        ("argument", "layers.3.up.weight", 4 << 20),
        ("temporary", "small", 4096),
        ("output", "result of loss", 512),
    ]
    assert buffers[-1].source == "t.py:9"


def test_tensors_that_the_step_does_not_use_take_memory_too():
    teacher = {"name": "teacher.weight", "shape": [1 << 30], "dtype": "float32", "bytes": 4 * GIB}
    stats = {"argument": 8 * GIB, "output": 0, "alias": 0, "temp": 0, "generated_code": 0}
    module = programs.looped(1)
    alone = read_memory(stats, module, programs.graph(), V5E)
    beside = read_memory(stats, module, programs.graph(resident=[teacher, teacher]), V5E)
    assert (alone.total, alone.fits) == (8 * GIB, True)
    assert (beside.total, beside.shortfall) == (16 * GIB, 16 * GIB - round(15.75 * GIB))
    assert not beside.fits
    assert (beside.buffers[0].kind, beside.buffers[0].name) == ("other tensor", "teacher.weight")
    refused = read_refusal(REFUSED, programs.graph(resident=[teacher]), V5E)
    assert refused.total == round(25.5 * GIB)
