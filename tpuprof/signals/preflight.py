"""What the TPU compiler said of the script and of its variants, where a preflight's answer is in the run folder."""

from __future__ import annotations

from tpuprof.model.preflight_notes import Variant
from tpuprof.signals.base import SignalsBase, signal


class PreflightSignals(SignalsBase):
    """Predictions of `tpuprof preflight`: bytes of one device, ms per step, seconds of a compile."""

    @signal("variants")
    def preflight(self) -> list[Variant]:
        """What preflight compiled, one entry a variant and slice, the script as it is first; empty where none."""
        return self._run.preflight
