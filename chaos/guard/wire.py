"""What watchdog and guard say to each other: one JSON object per line. Knows nothing of what it means."""

from __future__ import annotations

from typing import Any

import msgspec

from chaos import errors
from chaos.errors import Broken, ChaosError

# What a watchdog may answer with instead of a result, by name.
_ERRORS: dict[str, type[ChaosError]] = {
    name: getattr(errors, name) for name in ("CannotWrite", "CannotCreate", "Refused", "Broken")
}


class Lines:
    """Puts lines together again from what a pipe gives."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """The whole messages so far; a line that is none is left out."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        messages = []
        for line in lines:
            try:
                messages.append(msgspec.json.decode(line, type=dict[str, Any]))
            except msgspec.DecodeError:
                continue
        return messages


def encode(message: dict[str, Any]) -> bytes:
    """One line."""
    return msgspec.json.encode(message) + b"\n"


def error_fields(problem: ChaosError) -> dict[str, Any]:
    """An error as fields of a reply."""
    return {"error": type(problem).__name__, "message": problem.message, "remedy": problem.remedy}


def raise_error(reply: dict[str, Any]) -> None:
    """Raises the error that a reply carries, if it does."""
    if "error" in reply:
        kind = _ERRORS.get(reply["error"], Broken)
        raise kind(reply.get("message", "the watchdog gave no reason"), remedy=reply.get("remedy"))
