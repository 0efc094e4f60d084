"""What a report says of where a run ran, and what it was read from."""

from __future__ import annotations

from typing import Any

from tpuprof.decode.ranks import machines
from tpuprof.model.run import Run
from tpuprof.version import VERSION


def about(run: Run) -> dict[str, Any]:
    """Fields of a Report about its files, tpuprof, and the machines."""
    return {
        "source": {
            "files": [str(path) for path in run.files.values()],
            "sizes": [host.size for host in run.hosts],
        },
        "generator": {"name": "tpuprof", "version": VERSION},
        "environment": _environment(run),
        "predicted": run.predicted,
    }


def _environment(run: Run) -> dict[str, Any]:
    """What is known of versions, devices and flags; tpuprof's run.json first, else what the trace states."""
    devices = [device for host in run.hosts for device in host.devices]
    gpus = [host.gpus for host in run.hosts if host.gpus is not None]
    frameworks = {host.framework for host in run.hosts}
    stated = {
        "framework": ", ".join(sorted(frameworks)),
        "device_type": devices[0].type if devices else gpus[0].type if gpus else None,
        "device_count": sum(device.count for device in devices) or sum(each.count for each in gpus),
        "megacore": devices[0].megacore if devices else None,
        "host_count": len(run.hosts),
        "machine_count": machines([each.name for each in run.hosts], torch_tpu="torch_tpu" in frameworks),
        "unread_hosts": run.unread_hosts,
        "peak_flops_per_s": devices[0].peak_flops_per_s if devices else None,
        "peak_hbm_bytes_per_s": devices[0].peak_hbm_bytes_per_s if devices else None,
    }
    return {
        "torch_xla": None,
        "libtpu": None,
        **(run.info.get("versions") or {}),
        **stated,
        "run": run.info or None,
    }
