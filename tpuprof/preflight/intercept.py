"""Takes each graph a training script is about to run, in place of running it. Runs inside the script's process.

`_xla_step_marker` and its kin are wrapped. The pending tensors are lowered to HLO with their SPMD shardings,
then turned into inputs without memory (torch_xla's own `_clear_pending_irs`), so that the next step traces as
it would have, and nothing is executed.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch_xla

from tpuprof.preflight import pallas
from tpuprof.preflight.device_tensors import (
    device_tensors,
    on_xla,
    script_names,
    tensor_names,
    unused_tensors,
)
from tpuprof.preflight.dry_tensors import DryTensors, placeholder
from tpuprof.preflight.iteration import Event, Search, event_entry
from tpuprof.preflight.last_call import LastCall
from tpuprof.preflight.made_up import stand_in
from tpuprof.preflight.manifest import DONE, write_manifest
from tpuprof.preflight.regions import take_regions
from tpuprof.preflight.weights import (
    OptimizerSteps,
    device_optimizers,
    optimizers,
    resident_entries,
    trainable_ids,
)

_REPORTED_ID = re.compile(r"^Tensor: id=(\d+)|^id=(\d+)", re.MULTILINE)
_ALIAS_ID = re.compile(r"AliasID: (\d+)")


class Recorder:
    """Takes graphs and writes them to a folder, with a manifest that is whole after each of them."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.graphs: dict[str, dict[str, Any]] = {}
        self.search = Search()
        self.optimizer_steps = OptimizerSteps()
        self.warnings: list[str] = []
        # The report this check reads takes minutes for a large model: tests turn it on.
        self.check = os.environ.get("TPUPROF_PREFLIGHT_CHECK") == "1"
        self.lock = threading.RLock()
        lazy = os.environ.get("TPUPROF_PREFLIGHT_LAZY", "1") == "1"
        self.dry = DryTensors(self.on_read, lazy, LastCall(self.folder))
        self.core = torch_xla._XLAC
        self.step_marker = self.core._xla_step_marker
        self.mark_sharding = self.core._xla_mark_sharding
        self.live: dict[int, torch.Tensor] = {}
        self.done = False

    def on_step(
        self, device: str = "", devices: Any = (), wait: bool = True, reset_scope: bool = True
    ) -> None:
        """Stand in for `_xla_step_marker`: take the graph of all pending tensors, then forget it."""
        with self.lock:
            pending = self._pending()
            key = self._take(pending, "step") if pending else ""
            # Held longer, they would become outputs of the next graph.
            self.live = {}
            if _spmd_on():
                self._shard_like_weights()
            # Also without pending tensors: a copy that shares its source's buffer so far is made by a sync.
            self.core._clear_pending_irs(device or self.core._xla_get_default_device())
            if key:
                self._note_step(key)
        self.step_marker(device, list(devices), wait=wait, reset_scope=reset_scope)
        if pending:
            self._stop_when_steady()

    def _note_step(self, key: str) -> None:
        self.dry.lazy = False
        stepped = self.optimizer_steps.take()
        update = bool(stepped or self.graphs[key]["updates"])
        self.search.events.append(Event(key, update, stepped))
        self.search.optimizers = device_optimizers()
        self._write()

    def on_sync_live(self, device: str = "", devices: Any = (), wait: bool = True) -> None:
        """Stand in for `_xla_sync_live_tensors`."""
        self.on_step(device, devices, wait)

    def on_sync_multi(self, tensors: Any, *_args: Any, **_options: Any) -> None:
        """Stand in for `_xla_sync_multi`: take the graph of these tensors alone."""
        with self.lock:
            pending = self._unmade(list(tensors))
            if pending:
                key = self._take(pending, "sync of named tensors")
                self.search.events.append(Event(key, False))
            for each in pending:
                self.core._replace_xla_tensor(each, placeholder(each.shape, each.dtype))

    def on_region(self, tensors: list[torch.Tensor]) -> None:
        """Take the graph of a compiled region: its results, and the inputs that it changed in place."""
        with self.lock:
            self.live = device_tensors(self.core)
            pending = self._unmade(tensors)
            if pending:
                key = self._take(pending, "compiled region")
                self.search.events.append(Event(key, bool(self.graphs[key]["updates"])))
            for each in pending:
                self.core._replace_xla_tensor(each, placeholder(each.shape, each.dtype))
            self.live = {}

    def on_cpu_tensors(self, tensors: Any) -> list[torch.Tensor]:
        """Stand in for `_xla_get_cpu_tensors`: made-up values of the right shapes (checkpoints)."""
        with self.lock:
            self.on_read(*tensors)
        return [torch.empty(each.shape, dtype=each.dtype).fill_(stand_in(each)) for each in tensors]

    def on_mark_sharding(self, tensor: torch.Tensor, sharding: Any) -> Any:
        """Stand in for `_xla_mark_sharding`: a weight that was never made cannot be fetched to be sharded.

        Until the first step it is then a constant with that sharding; every later graph has it as an input.
        """
        if self.core._is_placecholder(tensor) and not self.core._get_xla_sharding_spec(tensor):
            stand_in = torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device)
            self.core._replace_xla_tensor(tensor, stand_in)
        elif self.core._is_placecholder(tensor):
            return None
        return self.mark_sharding(tensor, sharding)

    def on_read(self, *tensors: torch.Tensor) -> None:
        """Take the graph of tensors whose values the script asks for."""
        pending = self._unmade([each for each in tensors if on_xla(each)])
        if pending:
            self.search.events.append(Event(self._take(pending, "read"), False))

    def _pending(self) -> list[torch.Tensor]:
        live = device_tensors(self.core)
        pending = self._unmade([live[key] for key in sorted(live)])
        self.live = live
        if self.check:
            self._check_complete(live)
        return pending

    def _check_complete(self, live: dict[int, torch.Tensor]) -> None:
        report = self.core._xla_tensors_report(1, self.core._xla_get_default_device())
        missing = {int(a or b) for a, b in _REPORTED_ID.findall(report)} - set(live)
        if missing:
            self.warnings.append(
                f"{len(missing)} tensors of the step are out of Python's sight, so that the graph lacks them "
                "as outputs: real memory use is a little higher"
            )

    def _shard_like_weights(self) -> None:
        """Give gradients and optimizer state their weight's sharding, as running the step would.

        There the compiler's choice for each output comes back with the data; for state of the weight's own shape
        that choice is the weight's sharding.
        """
        for weight, held in weight_state():
            sharding = self.core._get_xla_op_sharding(weight)
            if sharding is None or held.shape != weight.shape:
                continue
            if self.core._get_xla_op_sharding(held) is None and self._unmade([held]):
                self.core._xla_annotate_custom_sharding(held, sharding)

    def _unmade(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        for each in tensors:
            # Reading the spec pushes the tensor's sharding to its graph node, as a real sync does.
            self.core._get_xla_sharding_spec(each)
        needed = self.core._check_tensor_need_materialization(tensors)
        return [each for each, wanted in zip(tensors, needed, strict=True) if wanted]

    def _take(self, pending: list[torch.Tensor], kind: str) -> str:
        key = str(self.core._get_graph_hash(pending).hex())
        if key in self.graphs:
            self.graphs[key]["count"] += 1
            # As it is from now on: after the first step an averaged copy has left the buffer of its weight.
            self.graphs[key]["resident"] = self._resident(pending)
        else:
            started = time.perf_counter()
            number = len(self.graphs)
            name = f"graph-{number}.hlo.pb"
            (self.folder / name).write_bytes(self.core._get_xla_tensors_hlo_proto(pending))
            self.graphs[key] = {
                "number": number, "hash": key, "kind": kind, "file": name, "count": 1, "outputs": len(pending),
                "frames": _user_frames(), **self._inputs(pending), "seconds": time.perf_counter() - started,
            }  # fmt: skip
            print(
                f"tpuprof-preflight: graph {number} ({kind}, {len(pending)} outputs)",
                file=sys.stderr,
                flush=True,
            )
        self._write()
        return key

    def _inputs(self, pending: list[torch.Tensor]) -> dict[str, Any]:
        ids, values = self.core._get_tensors_xla_device_data_node(pending)
        names = tensor_names(self.core)
        aliases: dict[int, str] = {}
        for each in pending:
            alias = self._alias_id(each)
            # A weight updated in place is a new tensor that takes the old one's buffer, and its name.
            aliases[alias] = names.get(self.core._xla_get_tensor_id(each), "") or aliases.get(alias, "")
        parameters = [
            {
                "name": names.get(key) or aliases.get(key, ""), "shape": list(value.shape),
                "dtype": str(value.dtype).split(".")[-1], "made": not self.core._is_placecholder(value),
            }
            for key, value in zip(ids, values, strict=True)
        ]  # fmt: skip
        outputs = [names.get(self.core._xla_get_tensor_id(each), "") for each in pending]
        trainable = trainable_ids(self.core)
        updated = [each for each in pending if self.core._xla_get_tensor_id(each) in trainable]
        return {
            "parameters": parameters,
            "donors": [index for index, key in enumerate(ids) if key in aliases],
            "output_names": outputs,
            "updates": sum(self._alias_id(each) in set(ids) for each in updated),
            "resident": self._resident(pending),
        }

    def _resident(self, pending: list[torch.Tensor]) -> list[dict[str, Any]]:
        """The tensors that wait in the device's memory while the graph of `pending` runs; of a step alone.

        A value that is read has none: no tensors were looked up for it, and a look at all objects for each read would
        slow a script down that reads often.
        """
        if not self.live:
            return []
        ids, _ = self.core._get_tensors_xla_device_data_node(pending)
        used = {*ids, *(self.core._xla_get_tensor_id(each) for each in pending)}
        names = {**tensor_names(self.core), **script_names(self.core)}
        return resident_entries(self.core, unused_tensors(self.core, self.live, used, names), names)

    def _alias_id(self, tensor: torch.Tensor) -> int:
        found = _ALIAS_ID.search(self.core._get_xla_tensor_debug_info(tensor))
        return int(found.group(1)) if found else self.core._xla_get_tensor_id(tensor)

    def _stop_when_steady(self) -> None:
        if self.search.finished():
            self.done = True
            self._write()
            leave(self.folder)

    def _write(self) -> None:
        manifest = {
            "graphs": list(self.graphs.values()), "warnings": self.warnings,
            "events": [event_entry(each) for each in self.search.events],
            "optimizers": sorted(self.search.optimizers),
            "kernels": pallas.notes,
            "done": self.done, "spmd": _spmd_on(), "unmade_bytes": self.dry.unmade_bytes, "reads": self.dry.reads,
            "devices": self.core._xla_num_global_devices() if not _spmd_on() else _spmd_devices(self.core),
            "versions": {"torch": torch.__version__, "torch_xla": torch_xla.__version__},
        }  # fmt: skip
        write_manifest(self.folder, manifest)


def leave(folder: Path) -> NoReturn:
    """End the process at once, from any thread: no `finally`, no `except BaseException`, no atexit function.

    The launcher ends the script's other processes when it sees the file.
    """
    (folder / DONE).touch()
    os._exit(0)


def install(folder: str) -> None:
    """Wrap torch_xla's ways of running a graph; only the first local process of a script records."""
    if os.environ.get("PJRT_LOCAL_PROCESS_RANK", "0") != "0":
        return
    recorder = Recorder(folder)
    core = torch_xla._XLAC
    core._xla_step_marker = recorder.on_step
    core._xla_sync_live_tensors = recorder.on_sync_live
    core._xla_sync_multi = recorder.on_sync_multi
    core._xla_get_cpu_tensors = recorder.on_cpu_tensors
    core._xla_mark_sharding = recorder.on_mark_sharding
    core._run_cached_graph = _refuse_dynamo
    take_regions(recorder)
    _print_without_reading(recorder)
    _stay_in_one_process()
    _show_devices()
    recorder.dry.__enter__()


def _refuse_dynamo(*_args: Any, **_options: Any) -> Any:
    raise RuntimeError(
        "tpuprof preflight cannot trace torch.compile(backend='openxla'), which runs its graphs itself; "
        "leave torch.compile out for it"
    )


def _print_without_reading(recorder: Recorder) -> None:
    """Let a script print a tensor whose values do not exist: printing turns dispatch modes off."""
    import torch._tensor_str

    plain = torch._tensor_str._str

    def text(self: torch.Tensor, **options: Any) -> str:
        if not on_xla(self):
            return str(plain(self, **options))
        recorder.on_read(self)
        return f"tensor(..., device='xla', size={tuple(self.shape)}, dtype={self.dtype})"

    torch._tensor_str._str = text


def _stay_in_one_process() -> None:
    """Run the function given to `torch_xla.launch` or `xmp.spawn` here, once, as the first of all replicas."""
    import torch_xla.core.xla_model as xm
    import torch_xla.distributed.xla_multiprocessing as xmp

    def spawn(fn: Any, args: tuple[Any, ...] = (), **_options: Any) -> None:
        if not _spmd_on():
            # So the script counts all devices as its world, and reduces gradients over them.
            xm.set_replication(torch_xla.device(), xm.get_xla_supported_devices())
        fn(0, *args)

    xmp.spawn = spawn


def _show_devices() -> None:
    """Let libraries that look for TPU chips (Lightning) see the devices there are."""
    from torch_xla._internal import tpu

    tpu.num_available_devices = lambda: int(os.environ.get("CPU_NUM_DEVICES", "1"))


def weight_state() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """(weight, tensor) for each gradient and each tensor of optimizer state, on the XLA device."""
    found = []
    for optimizer in optimizers():
        for group in optimizer.param_groups:
            for weight in group["params"]:
                held = [weight.grad, *optimizer.state.get(weight, {}).values()]
                found += [
                    (weight, each)
                    for each in held
                    if isinstance(each, torch.Tensor) and each.device.type == "xla"
                ]
    return found


def _user_frames(limit: int = 8) -> list[str]:
    """Python frames of the script, innermost first, without those of libraries and of tpuprof."""
    frames: list[str] = []
    frame = sys._getframe(1)
    skipped = (
        f"{os.sep}site-packages{os.sep}",
        f"{os.sep}tpuprof{os.sep}",
        f"{os.sep}lib{os.sep}python",
        "<frozen",
    )
    while frame is not None and len(frames) < limit:
        name = frame.f_code.co_filename
        if not any(part in name for part in skipped):
            frames.append(f"{name}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back  # type: ignore[assignment]
    return frames


def _spmd_on() -> bool:
    import torch_xla.runtime as xr

    return bool(xr.is_spmd())


def _spmd_devices(core: Any) -> int:
    return len(core._xla_get_all_runtime_devices()) if hasattr(core, "_xla_get_all_runtime_devices") else 1


__all__ = ["Recorder", "install", "placeholder", "tensor_names"]
