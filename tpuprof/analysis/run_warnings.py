"""What a report says of the capture itself, beside its findings: what is missing, what makes it doubtful."""

from __future__ import annotations

from tpuprof.model.outside_capture import between_steps, outside_capture
from tpuprof.model.run import Run


def run_warnings(run: Run) -> list[str]:
    """Each with the host it is of."""
    notes = [*run.warnings]
    for host in run.hosts:
        notes += [f"{host.name}: {note}" for note in host.warnings]
        notes += [
            f"{host.name}: {note}"
            for note in outside_capture(host.steps.wall_ps, host.after, between_steps(host.steps))
        ]
        if host.gpus is not None and host.gpus.text:
            notes.append(f"{host.name}: {host.gpus.text}")
        elif not host.devices:
            notes.append(
                f"{host.name}: no device activity in the trace, so shares are of what the host does; whether the "
                "device works meanwhile is unknown"
            )
        if host.activity.driver is None and host.gpus is None and not run.predicted:
            notes.append(f"{host.name}: no training thread was recognised, so idle time cannot be named")
    return notes
