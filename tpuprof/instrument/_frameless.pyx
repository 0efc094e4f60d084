# cython: language_level=3
"""Calls of the program's with something around them, without a Python frame of ours in between.

What the original warns of is then said of the program's own line, as it is without us, and torch.compile has no Python
function of ours to look into.
"""


def around(original, before, after):
    """A function that calls `original`, between `before(args, kwargs)` and `after` with what that gave, if not None.

    Neither of the two may raise.
    """

    def wrapped(*args, **kwargs):
        kept = before(args, kwargs)
        if kept is None:
            return original(*args, **kwargs)
        try:
            return original(*args, **kwargs)
        finally:
            after(kept)

    return wrapped
