"""The verdict of a run in which only some steps compile."""

from __future__ import annotations

from tpuprof.units import format_ms, format_share

# Share of a step that compiling must take for the step to count as one that compiles: less is another thread's.
COMPILES_FROM_SHARE = 0.01
# What the median step without a compile takes of the device's mean time per step, below which the host runs ahead
# (ratio): a mean holds long steps as well, and was 1.06 times the median of steps that end with a read. A judgement.
AHEAD_BELOW = 0.8


def compile_word(steps: int) -> str:
    """The verb behind so many steps."""
    return "compiles" if steps == 1 else "compile"


def compiles_in(wall: float, lost: float) -> bool:
    """Whether a step compiles, of whose time so much is idle for compiles."""
    return lost >= COMPILES_FROM_SHARE * wall


def compile_sentence(times: list[tuple[float, float]], busy: float = 0.0, *, ahead: bool = False) -> str:
    """The verdict where only some steps compile; `times` is (wall, of it idle for compiles) of each step in ms.

    `busy` is the mean time that the device works per step (ms), and `ahead` says that the device was seen to work on
    as steps without a compile ended. Empty where all steps compile.
    """
    import statistics

    without = [wall for wall, lost in times if not compiles_in(wall, lost)]
    if not without or len(without) == len(times):
        return ""
    compiled = len(times) - len(without)
    wall, lost = sum(wall for wall, _ in times), sum(compiling for _, compiling in times)
    usual = statistics.median(without)
    # Where the host runs ahead, its step is over long before the device has done it: that is not what a step takes.
    # Nor is it where steps without a compile hold less work than the others.
    takes = f"the median step without a compile takes {format_ms(usual)}"
    if len(without) == 1:
        takes = f"the one step without a compile took {format_ms(usual)}"
    if usual < AHEAD_BELOW * busy:
        takes = f"the device works for {format_ms(busy)} per step"
        takes += ", and the host runs ahead of it" if ahead else ""
    return (
        f"Compile-bound: {compiled} of {len(times)} steps {compile_word(compiled)}, which takes "
        f"{format_share(lost / wall)} of the captured steps' time ({format_ms(lost)} of {format_ms(wall)}); "
        f"{takes}."
    )
