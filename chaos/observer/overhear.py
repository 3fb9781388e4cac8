"""Where sources write, and a way for one source to hear what another one writes, on its way to the history."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

# kind, its fields, the rank it is about, CLOCK_MONOTONIC
Listener = Callable[[str, Mapping[str, Any], int | None, int], None]


class EventWriter(Protocol):
    """What a source needs of `history.writer.Writer`."""

    def write_about(
        self,
        kind: str,
        fields: Mapping[str, Any],
        *,
        life: str | None,
        rank: int | None = None,
        group: str | None = None,
        t_ns: int | None = None,
        wall_s: float | None = None,
    ) -> None: ...


class Overhearing:
    """Writes what it is given, unchanged, after the listener has heard it."""

    def __init__(self, writer: EventWriter, listener: Listener) -> None:
        self._writer, self._listener = writer, listener

    def write_about(
        self,
        kind: str,
        fields: Mapping[str, Any],
        *,
        life: str | None,
        rank: int | None = None,
        group: str | None = None,
        t_ns: int | None = None,
        wall_s: float | None = None,
    ) -> None:
        self._listener(kind, fields, rank, time.monotonic_ns() if t_ns is None else t_ns)
        self._writer.write_about(kind, fields, life=life, rank=rank, group=group, t_ns=t_ns, wall_s=wall_s)
