"""When IR debugging is on: as long as graphs compile, and not through a long warm-up."""

from __future__ import annotations

from tpuprof.capture.ir_debug import RESTS_AFTER, IrDebug


class Extension:
    """The three functions of torch_xla's extension module that are asked."""

    def __init__(self, *, on: bool) -> None:
        self.on = on

    def _get_ir_debug(self) -> bool:
        return self.on

    def _set_ir_debug(self, on: bool) -> None:
        self.on = on

    def _xla_counter_value(self, _: str) -> int:
        return 0


def test_it_rests_in_a_long_warm_up_and_wakes_up_with_a_compile() -> None:
    extension = Extension(on=False)
    debug = IrDebug(extension)
    debug.on()
    seen = []
    for step, quiet in enumerate([*range(RESTS_AFTER + 3), 0, 1]):
        debug.before_step(step, quiet)
        seen.append(extension.on)
    assert seen == [True] * RESTS_AFTER + [False] * 3 + [True, True]
    debug.restore()
    assert not extension.on
    assert not debug.off_in


def test_where_the_user_has_it_on_every_other_step_goes_without() -> None:
    extension = Extension(on=True)
    debug = IrDebug(extension)
    debug.on()
    seen = []
    for step, quiet in enumerate(range(RESTS_AFTER + 2)):
        debug.before_step(step, quiet)
        seen.append(extension.on)
    assert seen == [quiet % 2 == 0 for quiet in range(RESTS_AFTER + 2)]
    assert debug.off_in == [1, 3, 5, 7, 9]
    debug.restore()
    assert extension.on
