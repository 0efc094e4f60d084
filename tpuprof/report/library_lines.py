"""Where in an installed package the time is of a line that calls all of training, as `train.main()` does."""

from __future__ import annotations

from tpuprof.parts import HOST_PREFIX
from tpuprof.report.host_lines import LINE_FROM_SHARE, LOOP_FROM_SHARE, Where, places_that_train
from tpuprof.report.sections import HostStackRow
from tpuprof.report.user_frames import in_package, library_functions, places_of_users

_GIL = HOST_PREFIX + "gil"


def inside(stacks: list[HostStackRow], part: str, where: Where | None) -> str:
    """`, inside mypkg/train.py:9 (in vocabulary)`: the line of a package that has most of a part at a line.

    Empty where the line does not call the training loop: what `pandas.read_csv` does inside says little. Empty for
    waits for Python's lock: where a thread loses it says nothing of what holds it.
    """
    if where is None or where.function or part == _GIL or not part.startswith(HOST_PREFIX):
        return ""
    if where.source not in places_that_train(stacks, places_of_users, LOOP_FROM_SHARE):
        return ""
    rows = [row for row in stacks if row.part == part and row.source == where.source]
    places: dict[str, float] = {}
    for row in rows:
        place = _innermost(row)
        places[place] = places.get(place, 0.0) + row.exposed_ms_per_step
    most = max(places, key=lambda each: places[each], default="")
    enough = LINE_FROM_SHARE * sum(row.exposed_ms_per_step for row in rows)
    return f", inside {most}" if most and places[most] >= enough else ""


def _innermost(row: HostStackRow) -> str:
    """The innermost line of a stack that is neither Python's own nor a framework's; empty where it is the user's."""
    functions = library_functions(row.frames)
    if not functions:
        return ""
    most = max(functions, key=lambda each: functions[each][0])
    name, path, _ = most
    source = f"{path}:{functions[most][1]}"
    return "" if source == row.source else f"{in_package(source)} (in {name})"
