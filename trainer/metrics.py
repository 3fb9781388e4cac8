"""Loss by step in a file of JSON lines, for plots and comparisons. Floats are hexadecimal: exact to the bit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def recorder(path: Path | None, *, rank: int) -> Iterator[Callable[..., None]]:
    """A function that appends one line; it does nothing without a path, or on ranks other than 0."""
    if path is None or rank != 0:
        yield lambda **numbers: None
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", buffering=1) as file:

        def record(**numbers: int | float) -> None:
            shown = {name: value.hex() if isinstance(value, float) else value for name, value in numbers.items()}
            file.write(json.dumps(shown) + "\n")

        yield record
