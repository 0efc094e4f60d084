"""Asks the server the same again and again, until it has an answer.

A browser drops an answer when it has asked the same again meanwhile. So nothing is asked again before the last answer
is here: a page that takes longer to make than the time between two ticks would otherwise never be shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dash import ClientsideFunction, Input, Output, State, dcc

if TYPE_CHECKING:
    import dash


def asking(name: str, every_ms: float, *, disabled: bool = False) -> list[Any]:
    """What ticks, and what callbacks listen to (see `asked`)."""
    return [dcc.Interval(id=name, interval=every_ms, disabled=disabled), dcc.Store(id=_store(name))]


def asked(name: str) -> Input:
    """The input of a callback that is to run at each tick."""
    return Input(_store(name), "data")


def register_asking(app: dash.Dash, name: str) -> None:
    """Let ticks through while no callback that listens to them is being answered."""
    app.clientside_callback(
        ClientsideFunction("tpuprof", "askAgain"),
        Output(_store(name), "data"),
        Input(name, "n_intervals"),
        State(_store(name), "id"),
        prevent_initial_call=True,
    )


def _store(name: str) -> str:
    return f"{name}-asked"
