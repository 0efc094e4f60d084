"""Offload copies and collectives, and collectives summed by layer."""

from __future__ import annotations

from dataclasses import replace

from tpuprof.bounds import CLOCK_SLACK, checked
from tpuprof.chips import HOST_LINK_AT_MOST, chip_of
from tpuprof.model.compile.hlo_metadata import scope_label
from tpuprof.model.device.collective_role import Role
from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.device.transfers import Transfer, Transfers
from tpuprof.model.host_run import HostRun
from tpuprof.report.schema import TransferRow
from tpuprof.report.sections import LayerRow
from tpuprof.units import GIGA, PS_PER_MS, format_ms, ps_to_ms

ACROSS = "across slices"
NO_ROLE = Role()


def transfer_rows(hosts: list[HostRun], kind: OpKind) -> list[TransferRow]:
    """Offload copies or collectives, of the device that has most of their own spans.

    Devices of one program do the same.
    """
    best = _best(hosts, kind)
    if best is None:
        return []
    _, host, transfers = best
    limit = _link_limit(host, kind)
    step_ms = ps_to_ms(int(host.steps.wall_ps.sum())) / len(host.steps)
    name = host.name if len(hosts) > 1 else ""
    rows = [_transfer_row(each, len(host.steps), host.collective_roles, name) for each in transfers.rows()]
    return [_within_bounds(row, limit, step_ms) for row in rows]


def spans_known(host: HostRun, kind: OpKind) -> int | None:
    """Of how many transfers the host's best device has their own spans, None where it has no transfers in steps."""
    best = _best([host], kind)
    return best[0] if best is not None else None


def _best(hosts: list[HostRun], kind: OpKind) -> tuple[int, HostRun, Transfers] | None:
    """The device that has most spans of such transfers, with how many, and its host."""
    best: tuple[int, HostRun, Transfers] | None = None
    for host in hosts:
        for device in host.devices:
            if best is not None and not len(device.async_events.op):
                continue
            found = Transfers(device, host.steps, kind)
            told = found.with_spans
            if len(found) and (best is None or told > best[0]):
                best = (told, host, found)
    return best


def _link_limit(host: HostRun, kind: OpKind) -> float | None:
    """GB/s that no transfer of a kind can exceed, None where the chip is not known.

    Of host copies that of the fastest link a host has; of collectives twice all links of a chip, since their bytes
    count what is read and what is written.
    """
    chip = chip_of(host.devices[0].type) if host.devices else None
    if chip is None:
        return None
    if kind == OpKind.OFFLOAD:
        return HOST_LINK_AT_MOST / GIGA
    # Two devices of one chip have a link of their own between them.
    return None if chip.devices_per_chip > 1 else 4 * chip.torus_axes * chip.ici_bytes_per_s / GIGA


def _within_bounds(row: TransferRow, limit: float | None, step_ms: float) -> TransferRow:
    """The row without figures that cannot be."""
    rates = [
        checked(
            value, what, at_most=limit, bound=f"the link's {limit} GB/s", show=_gb_per_s, slack=CLOCK_SLACK
        )
        for what, value in (("its rate", row.gb_per_s), ("its rate alone on the link", row.gb_per_s_alone))
    ]
    exposed = checked(
        row.exposed_ms_per_step, "its exposed time", at_most=step_ms, bound="the step", show=format_ms
    )
    notes = [each.note for each in (*rates, exposed) if each.note]
    if not notes and rates[0].value == row.gb_per_s and rates[1].value == row.gb_per_s_alone:
        return row
    return replace(
        row,
        gb_per_s=rates[0].value,
        gb_per_s_alone=rates[1].value,
        note=row.note or "; ".join(notes),
    )


def _gb_per_s(value: float) -> str:
    return f"{value:.3g} GB/s"


def _transfer_row(each: Transfer, steps: int, roles: dict[tuple[str, str], Role], host: str) -> TransferRow:
    role = roles.get((each.program, each.name), NO_ROLE)
    return TransferRow(
        name=each.name,
        kind=f"{each.kind} {ACROSS}" if each.across else each.kind,
        bytes=each.bytes or None,
        occurrences=each.occurrences,
        gb_per_s=each.rate / GIGA if each.rate is not None else None,
        gb_per_s_alone=each.rate_alone / GIGA if each.rate_alone is not None else None,
        exposed_ms_per_step=ps_to_ms(each.exposed_ps) / steps,
        hidden_ms_per_step=ps_to_ms(each.hidden_ps) / steps if each.hidden_ps is not None else None,
        tensor=each.tensor,
        source=each.source,
        annotation=scope_label(each.scope),
        role=role.role,
        parameter=role.parameter,
        layer=role.layer,
        direction=role.direction,
        ahead_ms=each.ahead_ps / PS_PER_MS if each.ahead_ps is not None else None,
        waiting_ms_per_step=ps_to_ms(each.waiting_ps) / steps if each.waiting_ps is not None else None,
        note=each.note,
        host=host,
        across_slices=each.across,
    )


def layer_rows(rows: list[TransferRow], steps: int) -> list[LayerRow]:
    """Collectives summed by layer, direction, kind and role, the most exposed first."""
    sums: dict[tuple[str, str, str, str], list[TransferRow]] = {}
    for row in rows:
        sums.setdefault((row.layer, row.direction, row.kind, row.role), []).append(row)
    found = [_layer_row(key, members, steps) for key, members in sums.items()]
    return sorted(found, key=lambda row: (-row.exposed_ms_per_step, row.layer))


def _layer_row(key: tuple[str, str, str, str], members: list[TransferRow], steps: int) -> LayerRow:
    hidden = [row.hidden_ms_per_step for row in members if row.hidden_ms_per_step is not None]
    waiting = [row.waiting_ms_per_step for row in members if row.waiting_ms_per_step is not None]
    sizes = [row.bytes * row.occurrences for row in members if row.bytes is not None]
    return LayerRow(
        *key,
        count_per_step=sum(row.occurrences for row in members) / steps,
        bytes_per_step=sum(sizes) / steps if sizes else None,
        exposed_ms_per_step=sum(row.exposed_ms_per_step for row in members),
        hidden_ms_per_step=sum(hidden) if hidden else None,
        waiting_ms_per_step=sum(waiting) if waiting else None,
    )
