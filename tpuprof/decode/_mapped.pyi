"""Types of the compiled watch; see `_mapped.pyx`."""

class Watch:
    watching: bool
    cut: bool
    def __init__(self, data: memoryview) -> None: ...
