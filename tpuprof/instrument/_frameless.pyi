from collections.abc import Callable
from typing import Any

def around(
    original: Callable[..., Any],
    before: Callable[[tuple[Any, ...], dict[str, Any]], object],
    after: Callable[[Any], object],
) -> Callable[..., Any]: ...
