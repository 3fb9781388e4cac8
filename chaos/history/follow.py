"""Follows a run's history while it is written: what ranks and controller have said since the last look.

For the live view and for the injector's knowledge of progress only. A verdict is never judged from this:
it reads the files again, with their manifest, when the run has ended.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from chaos.model.events import HEADER, KINDS, Event

# Five of six lines of a running job, and nobody who follows needs them: not worth the time that the job then lacks.
_PASSED_OVER = (b'"kind":"phase_entered"', b'"kind":"step_returned"')
_STEP = b'"kind":"step_done"'


class Follower:
    """`poll()` gives the events since the last call, in order of their time stamps, without the phases. Of steps that a
    rank did one after the other with nothing else between them it gives the first and the last: since when it steps and
    how far it is, not all it did."""

    def __init__(self, history_dir: Path) -> None:
        self._folder = history_dir
        self._offsets: dict[str, int] = {}
        self._lines: dict[str, int] = {}
        self._pending: dict[str, bytes] = {}

    def poll(self) -> list[Event]:
        events: list[Event] = []
        try:
            names = [name for name in os.listdir(self._folder) if name.endswith(".jsonl")]
        except OSError:
            return events
        for name in names:
            events += self._read(name)
        events.sort(key=lambda event: event.t_ns)
        return events

    def _read(self, name: str) -> list[Event]:
        offset = self._offsets.get(name, 0)
        try:
            with open(self._folder / name, "rb") as file:
                if os.fstat(file.fileno()).st_size <= offset:
                    return []
                file.seek(offset)
                chunk = file.read()
        except OSError:
            return []
        self._offsets[name] = offset + len(chunk)
        *lines, self._pending[name] = (self._pending.get(name, b"") + chunk).split(b"\n")
        first = self._lines.get(name, 0) + 1
        self._lines[name] = first - 1 + len(lines)
        kept: list[tuple[bytes, int]] = []
        step: tuple[bytes, int] | None = None  # the last of the steps that came one after the other, if not the first
        in_a_row = False
        for number, line in enumerate(lines, first):
            if _PASSED_OVER[0] in line or _PASSED_OVER[1] in line:
                continue
            if _STEP in line:
                if in_a_row:
                    step = (line, number)
                else:
                    kept.append((line, number))
                in_a_row = True
                continue
            kept += [step] if step is not None else []
            kept.append((line, number))
            step, in_a_row = None, False
        kept += [step] if step is not None else []
        told = (as_event(line, name, number) for line, number in kept)
        return [event for event in told if event is not None]


def as_event(line: bytes, file: str, number: int) -> Event | None:
    """One line as an event; None for anything that is not one (the reader of verdicts reports it)."""
    try:
        raw: dict[str, Any] = msgspec.json.decode(line)
        if raw["kind"] not in KINDS:
            return None
        header = {name: raw.pop(name) for name in HEADER}
        return Event(**header, data=raw, file=file, line=number)
    except (msgspec.DecodeError, ValueError, KeyError, TypeError, AttributeError):
        return None
