def texts_around(
    data: bytes | memoryview,
    signs: tuple[bytes, ...],
    around: int,
    most: int,
    begins: int = 0,
    until: int = -1,
) -> set[bytes]: ...
