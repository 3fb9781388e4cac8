"""Loss by step in a file of JSON lines, for plots and comparisons.

Floats are hexadecimal, exact to the bit, but for `monotonic_s`: when the line was written, in seconds.
"""

from __future__ import annotations

import json
import time
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
            shown: dict[str, object] = {
                name: value.hex() if isinstance(value, float) else value for name, value in numbers.items()
            }
            shown["monotonic_s"] = round(time.monotonic(), 6)
            file.write(json.dumps(shown) + "\n")

        yield record
