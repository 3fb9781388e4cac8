"""Durations (`500ms`, `8s`, `2m`) and sizes (`512KiB`, `16MiB`) as people write them, in seconds and in bytes."""

from __future__ import annotations

import re

PATTERN = r"^[0-9]+(\.[0-9]+)?(ms|s|m)$"
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0}
LONGEST_S = 24 * 3600.0
SIZE_PATTERN = r"^[1-9][0-9]{0,11}(B|KiB|MiB|GiB)$"
_BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def seconds(text: str) -> float:
    """Seconds of a duration; ValueError when it is none."""
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)(ms|s|m)", text)
    if match is None:
        raise ValueError(f"{text!r} is no duration")
    return float(match[1]) * _SECONDS[match[2]]


def bytes_of(text: str) -> int:
    """Bytes of a size; ValueError when it is none."""
    match = re.fullmatch(r"([1-9][0-9]{0,11})(B|KiB|MiB|GiB)", text)
    if match is None:
        raise ValueError(f"{text!r} is no size")
    return int(match[1]) * _BYTES[match[2]]
