"""What is wrong with a file, one line each: file, line, field, what was found, what is allowed, nearest spelling.

Problems are collected, so that a user mends a file in one go; raised together as one `ScenarioInvalid`.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from chaos.errors import ScenarioInvalid

Path: TypeAlias = tuple[str | int, ...]

SHOWN_MAX = 20  # a file this wrong is mended in rounds; a screenful is enough for one
FOUND_MAX = 60


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from: a file and its line, or an option of the command line (line None)."""

    where: str
    line: int | None = None

    def __str__(self) -> str:
        return self.where if self.line is None else f"{self.where}:{self.line}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. `field` is the dotted path, empty for the file as a whole."""

    origin: Origin
    field: str
    text: str

    def __str__(self) -> str:
        parts = (str(self.origin), self.field, self.text) if self.field else (str(self.origin), self.text)
        return ": ".join(_on_one_line(part) for part in parts)


def _on_one_line(text: str) -> str:
    """Keys come from files: what would break the line or steer a terminal is written as an escape."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def dotted(path: Sequence[str | int]) -> str:
    """`faults[0].at.phase`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def found(value: Any) -> str:
    """A value as the user may have written it, short and on one line."""
    if value is None:
        return "nothing (an empty value)"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= FOUND_MAX else text[: FOUND_MAX - 1] + "…"


def nearest(word: object, allowed: Iterable[str]) -> str:
    """`; did you mean "backward"?` or nothing."""
    if not isinstance(word, str):
        return ""
    lowered = {option.lower(): option for option in allowed}
    match = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    return f'; did you mean "{lowered[match[0]]}"?' if match else ""


def not_one_of(value: Any, allowed: Sequence[str]) -> str:
    """The usual sentence about a value outside a closed set."""
    return f"found {found(value)}; allowed: {', '.join(allowed)}{nearest(value, allowed)}"


def invalid(problems: Iterable[Problem]) -> ScenarioInvalid:
    """One error for all problems, each once, in the order of the lines of each file."""
    in_order = sorted(problems, key=lambda problem: (problem.origin.where, problem.origin.line or 0))
    lines = list(dict.fromkeys(str(problem) for problem in in_order))
    if len(lines) > SHOWN_MAX:
        lines[SHOWN_MAX:] = [f"... and {len(lines) - SHOWN_MAX} more"]
    return ScenarioInvalid("\n".join(lines))
