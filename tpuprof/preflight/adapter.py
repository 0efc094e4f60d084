"""The only module that uses jaxlib's private names: topologies, HLO conversion and compile-only clients.

Tested with jax 0.7.1 + libtpu 0.0.21 and jax 0.10.2 + libtpu 0.0.51. Runs in the compile worker's process; the
environment that `worker_environment` gives must be set before jax is imported.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tpuprof.decode.hlo_text import without_stack_frames

# Names the libtpu.so to take in place of the installed package's.
LIBRARY = "TPU_LIBRARY_PATH"


def worker_environment() -> dict[str, str]:
    """Environment in which libtpu starts without a TPU and without asking a metadata server for one."""
    return {
        "TPU_SKIP_MDS_QUERY": "1",
        # libtpu wants some slice to be named; which one does not matter to a compile-only client.
        "TPU_ACCELERATOR_TYPE": "v5litepod-4",
        "TPU_WORKER_ID": "0",
        "TPU_WORKER_HOSTNAMES": "localhost",
        # No TPU is touched, so compiles may run side by side, and beside a program that uses one.
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "JAX_PLATFORMS": "cpu",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }


def versions(library: str = "") -> dict[str, str]:
    """Versions of the compiler's packages, without importing them; empty text where one is not installed.

    `library` is the path of the libtpu.so that is taken in place of the installed package's, where there is one.
    """
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("jax", "jaxlib", "libtpu"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    beside = sorted(Path(library).parents[1].glob("libtpu-*.dist-info")) if library else []
    if library:
        found["libtpu"] = beside[-1].name.removesuffix(".dist-info").partition("-")[2] if beside else library
    return found


def describe_topology(name: str, options: dict[str, Any]) -> list[Any]:
    """Devices of a slice, such as `v5e:2x2`; raises jax's error where libtpu does not know it."""
    from jax.experimental import topologies

    usable = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    return list(topologies.get_topology_desc(platform="tpu", topology_name=name, **usable).devices)


def topology_known(name: str, options: dict[str, Any]) -> bool:
    """Whether the installed libtpu describes this slice; raises jax's error where libtpu itself does not start."""
    try:
        return bool(describe_topology(name, options))
    except Exception as error:
        if is_unknown(error):
            return False
        raise


def is_unknown(error: Exception) -> bool:
    """Whether an error of `describe_topology` means that libtpu knows no such slice."""
    return any(word in str(error) for word in ("INVALID_ARGUMENT", "NOT_FOUND"))


def compile_hlo(
    proto: bytes,
    devices: Sequence[Any],
    spmd: bool,
    propagate: Sequence[bool],
    donors: Sequence[int],
    use_shardy: bool = False,
) -> Any:
    """Compile a serialized HloModuleProto for these devices; returns jaxlib's executable.

    With `spmd` one program is partitioned over the devices, `propagate` saying for each parameter whether the
    compiler may choose its sharding; otherwise every device runs the whole program as a replica.
    Outputs may take the buffers of the parameters that `donors` numbers.
    Raises jaxlib's own exception, whose text is the compiler's (RESOURCE_EXHAUSTED where memory does not suffice).
    """
    from jaxlib import _jax

    module = _donating_module(_jax.mlir.hlo_to_stablehlo(proto), donors)
    options = _compile_options(_jax, len(devices), spmd, propagate, use_shardy)
    device_list = _jax.DeviceList(tuple(devices))
    client = devices[0].client
    try:
        return client.compile(module, device_list, options)
    except TypeError:
        # Up to jax 0.7 the client takes a module's bytes instead of the module.
        return client.compile(_bytecode(module), device_list, options)


def to_hlo(kind: str, data: bytes) -> tuple[bytes, int]:
    """StableHLO (`stablehlo`: text, bytecode, portable artifact) or HLO text as an HloModuleProto, and its partitions.

    Raises jaxlib's own exception where it cannot be read.
    """
    from jaxlib import _jax

    if kind == "hlo-text":
        text = data.decode("utf-8", "replace")
        found = re.search(r"num_partitions=(\d+)", text.split("\n", 1)[0])
        try:
            module = _jax.hlo_module_from_text(text)
        except Exception:
            # jaxlib 0.7.1 does not read the source tables that newer XLA prints, which say nothing of what is computed.
            module = _jax.hlo_module_from_text(without_stack_frames(text))
        return bytes(module.as_serialized_hlo_module_proto()), int(found.group(1)) if found else 0
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    with mlir.make_ir_context() as context:
        try:
            parsed: Any = stablehlo.deserialize_portable_artifact(context, data)
        except Exception:
            parsed = ir.Module.parse(data)
        stated = parsed.operation.attributes
        partitions = (
            ir.IntegerAttr(stated["mhlo.num_partitions"]).value if "mhlo.num_partitions" in stated else 0
        )
        computation = _jax.mlir.mlir_module_to_xla_computation(_bytecode(parsed), False, False)
    return bytes(computation.as_serialized_hlo_module_proto()), partitions


def stand_in(data: bytes) -> str:
    """StableHLO text of a program that takes and gives what this one does, all results being zeros."""
    from jax._src.interpreters import mlir
    from jaxlib.mlir.dialects import stablehlo

    with mlir.make_ir_context() as context:
        module = stablehlo.deserialize_portable_artifact(context, data)
        operations: list[Any] = list(module.body.operations)
        main = next(each for each in operations if each.name.value == "main")
        taken = ", ".join(f"%a{number}: {each}" for number, each in enumerate(main.type.inputs))
        made = [str(each) for each in main.type.results]
    lines = [
        f"%r{number} = stablehlo.constant dense<{_zero(each)}> : {each}" for number, each in enumerate(made)
    ]
    names = ", ".join(f"%r{number}" for number in range(len(made)))
    types = ", ".join(made)
    body = "\n".join([*lines, f"return {names} : {types}" if made else "return"])
    return f"module @stand_in {{\nfunc.func @main({taken}) -> ({types}) {{\n{body}\n}}\n}}\n"


def _zero(shape: str) -> str:
    """A zero of a tensor's element type: `tensor<4x2xf32>` has floats."""
    kind = shape.removeprefix("tensor<").removesuffix(">").rpartition("x")[2]
    if kind.startswith("complex"):
        return "(0.0, 0.0)"
    return "false" if kind == "i1" else "0" if kind.lstrip("u").startswith(("i", "s")) else "0.0"


def hlo_text(proto: bytes) -> str:
    """A serialized HloModuleProto as text, which holds all that an instruction has."""
    from jaxlib import _jax

    return str(_jax.HloModule.from_serialized_hlo_module_proto(proto).to_string())


def smallest_kernel() -> bytes:
    """A program of one Pallas kernel, lowered for a TPU in the version of Mosaic that the installed jax writes."""
    import jax
    from jax.experimental import pallas

    def double(taken: Any, made: Any) -> None:
        made[...] = taken[...] * 2

    shape = jax.ShapeDtypeStruct((8, 128), "float32")
    program = jax.jit(pallas.pallas_call(double, out_shape=shape))
    lowered = program.trace(shape).lower(lowering_platforms=("tpu",))
    # Without a TPU backend jax writes its newest version.
    hlo: Any = lowered.compiler_ir("hlo")
    return bytes(hlo.as_serialized_hlo_module_proto())


def kernel_module(code: bytes) -> Any:
    """A Pallas kernel's Mosaic module, from MLIR's bytecode or text; raises ValueError where it cannot be read."""
    from jax._src.lib import tpu
    from jax._src.lib.mlir import ir

    context = ir.Context()
    context.allow_unregistered_dialects = True
    tpu.register_dialect(context)
    with context:
        try:
            return ir.Module.parse(code)
        except ir.MLIRError as error:
            raise ValueError(f"not a module of Mosaic: {error}") from error


def memory_stats(executable: Any) -> dict[str, int]:
    """The executable's memory by kind in bytes, under jaxlib's names without `_size_in_bytes`."""
    stats = executable.get_compiled_memory_stats()
    ending = "_size_in_bytes"
    found = {name[: -len(ending)]: int(getattr(stats, name)) for name in dir(stats) if name.endswith(ending)}
    peak = getattr(stats, "peak_memory_in_bytes", 0)
    return {**found, "peak": int(peak)}


def optimized_hlo(executable: Any) -> tuple[str, bytes]:
    """The optimized, scheduled program as text (with cycle estimates) and as a serialized proto."""
    module = executable.hlo_modules()[0]
    return module.to_string(), module.as_serialized_hlo_module_proto()


def cost_analysis(executable: Any) -> dict[str, float]:
    """XLA's own totals for one device (`flops`, `bytes accessed`, ...), empty where it gives none."""
    try:
        found = executable.cost_analysis()
    except Exception:
        return {}
    found = found[0] if isinstance(found, list) and found else found
    return {key: float(value) for key, value in dict(found).items() if "{" not in key}


def _compile_options(core: Any, count: int, spmd: bool, propagate: Sequence[bool], use_shardy: bool) -> Any:
    import numpy as np

    options = core.CompileOptions()
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = (1, count) if spmd else (count, 1)
    build.use_spmd_partitioning = spmd
    if hasattr(build, "use_shardy_partitioner"):
        build.use_shardy_partitioner = use_shardy
    if spmd:
        # As torch_xla compiles: the compiler chooses the outputs' shardings.
        build.allow_spmd_sharding_propagation_to_output = [True]
        if any(propagate):
            build.allow_spmd_sharding_propagation_to_parameters = list(propagate)
    grid = np.arange(count).reshape((1, count) if spmd else (count, 1))
    build.device_assignment = core.DeviceAssignment.create(grid)
    return options


def _donating_module(bytecode: bytes, donors: Sequence[int]) -> Any:
    """The parsed module, with these parameters marked as free for outputs to overwrite.

    The conversion from HLO drops a module's own buffer donors, so they are marked again here.
    """
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    with mlir.make_ir_context():
        module = ir.Module.parse(bytecode)
        # The function's operation has its attributes generated at import: mypy sees none of them.
        operations: list[Any] = list(module.body.operations)
        main = next(each for each in operations if each.name.value == "main")
        attributes = list(main.arg_attrs) if "arg_attrs" in main.attributes else []
        attributes += [ir.DictAttr.get({})] * (len(main.type.inputs) - len(attributes))
        for index in donors:
            held = {item.name: item.attr for item in attributes[index]}
            attributes[index] = ir.DictAttr.get({**held, "jax.buffer_donor": ir.BoolAttr.get(True)})
        main.arg_attrs = ir.ArrayAttr.get(attributes)
    return module


def _bytecode(module: Any) -> bytes:
    from jax._src.interpreters import mlir

    return bytes(mlir.module_to_bytecode(module))
