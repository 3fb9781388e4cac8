"""Durations as people write them (`500ms`, `8s`, `2m`) and as seconds."""

from __future__ import annotations

import re

PATTERN = r"^[0-9]+(\.[0-9]+)?(ms|s|m)$"
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0}
LONGEST_S = 24 * 3600.0


def seconds(text: str) -> float:
    """Seconds of a duration; ValueError when it is none."""
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)(ms|s|m)", text)
    if match is None:
        raise ValueError(f"{text!r} is no duration")
    return float(match[1]) * _SECONDS[match[2]]
