"""What tpuprof's own notes on a capture (run.json) say of how it was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpuprof.model.held_gradients import HeldGradients


def was_sampled(info: Mapping[str, Any] | None) -> bool:
    """Whether the capture sampled the training thread's stack, though it may have got no sample of a short step."""
    return bool(_of_samples(info))


def sampled_late(info: Mapping[str, Any] | None) -> bool:
    """Whether samples show where the training thread let go of Python's lock, which may be lines later."""
    return _of_samples(info).get("prompt") is False


def _of_samples(info: Mapping[str, Any] | None) -> Mapping[str, Any]:
    capture = (info or {}).get("capture")
    found = capture.get("host_samples") if isinstance(capture, dict) else None
    return found if isinstance(found, dict) else {}


def noted_by_dynamo(info: Mapping[str, Any] | None, kind: str) -> list[dict[str, Any]]:
    """What dynamo noted of one kind (`breaks`, `recompiles`, `limits`); empty where it noted nothing, or nothing is."""
    noted = (info or {}).get("dynamo")
    rows = noted.get(kind) if isinstance(noted, dict) else None
    return [each for each in (rows if isinstance(rows, list) else []) if isinstance(each, dict)]


def frameworks_stated(of_hosts: set[str], info: Mapping[str, Any] | None) -> str:
    """The frameworks of a run's hosts; where no host left an event that tells, that of the capture."""
    noted = (info or {}).get("framework") if of_hosts == {"unknown"} else None
    return str(noted or ", ".join(sorted(of_hosts)))


def noted_gradients(info: Mapping[str, Any]) -> HeldGradients | None:
    """Gradients that no optimizer uses; None where the capture did not look, or nothing of them can be read."""
    capture = info.get("capture")
    if not isinstance(capture, dict) or not capture.get("unused_gradients"):
        return None
    # Most runs have none, and a plain analysis starts faster without it.
    from tpuprof.model.held_gradients import held_gradients

    return held_gradients(capture["unused_gradients"])


def noted_looks(info: Mapping[str, Any]) -> dict[str, Any]:
    """Where the training thread was seen after a recording by the clock; empty where nobody looked."""
    capture = info.get("capture")
    found = capture.get("later_looks") if isinstance(capture, dict) else None
    return found if isinstance(found, dict) else {}


def loaded_checkpoint(info: Mapping[str, Any]) -> bool:
    """Whether the process may have loaded torch_xla's gradient checkpointing: a prediction does not note modules."""
    features = info.get("features_loaded")
    return bool(info.get("predicted")) or (isinstance(features, list) and "checkpoint" in features)


def ops_at_once(info: dict[str, Any]) -> bool:
    """Whether run.json is of TorchTPU, and says that ops are not deferred."""
    return info.get("framework") == "torch_tpu" and not defers_ops(info)


def defers_ops(info: dict[str, Any]) -> bool:
    """Whether run.json says that the program or its environment defers ops."""
    if info.get("defers_ops") is True:
        return True
    environment = info.get("environment")
    said = environment.get("TORCH_TPU_DEFER_AND_FUSE") if isinstance(environment, dict) else None
    return str(said or "0").lower() not in ("0", "false", "off")


def device_types(of_hosts: Iterable[str | None]) -> str | None:
    """The type of the hosts' devices; all types, where profiles of several lie in one folder. None without any."""
    return " and ".join(dict.fromkeys(filter(None, of_hosts))) or None
