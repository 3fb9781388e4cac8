"""Reads the job's log as it grows, and writes as events what launcher, rank monitors and ranks say there.

The fallback for what the handlers inside the job's processes hear themselves: later, less exact, but of every
program's words. The forms of lines and their times are in `logs/`, the meaning of words in `model.nvrx_messages`.
When the log cannot tell, that is said once for each reason (`source_blind`, source `launcher_log`); what it says
is still written, as evidence that something was said, with an error as large as the doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from chaos.model.nvrx_messages import told
from chaos.observer.logs.clocks import LineClock, Look, look
from chaos.observer.logs.lines import Line, read_line
from chaos.observer.logs.markers import Markers
from chaos.observer.overhear import EventWriter

READ_BYTES_MAX = 1 << 20
PENDING_BYTES_MAX = 1 << 20  # a line that does not end is no line of NVRx's


class LauncherLog:
    """`poll()` reads what is new and writes the events found. `log_name` is how events cite the file."""

    def __init__(self, path: Path, log_name: str, writer: EventWriter, clocks: Callable[[], Look] = look) -> None:
        self._path, self._log_name, self._writer, self._clocks = path, log_name, writer, clocks
        self._clock = LineClock()
        self._markers = Markers()
        self._offset = 0
        self._line_count = 0
        self._pending = b""
        self._said: set[str] = set()

    def poll(self, *, last: bool = False) -> None:
        """Reads to the end of the file as it is now. A file that cannot be read is said once, and never fatal.

        Before the job starts there is no file yet; only at the last look is a file that never came a blind source.
        """
        jumped = self._clock.begin(self._clocks())
        if jumped:
            self._say_blind("clock", jumped)
        try:
            with open(self._path, "rb") as log:
                self._read(log)
        except FileNotFoundError as error:
            if last or self._offset:
                self._say_blind("file", str(error))
        except OSError as error:
            self._say_blind("file", str(error))
        if last and (hidden := self._markers.hidden()):
            self._say_blind("hidden", hidden)

    def saw_process(self, kind: str, fields: Mapping[str, Any], rank: int | None, t_ns: int) -> None:
        """What the process table shows, which the log must bear out."""
        self._markers.process(kind, fields, rank, t_ns)

    def _read(self, log: Any) -> None:
        size = log.seek(0, 2)
        if size < self._offset:
            self._say_blind("cut", f"{self._log_name} became shorter: from {self._offset} to {size} bytes")
            self._offset, self._pending = size, b""
        log.seek(self._offset)
        while chunk := log.read(READ_BYTES_MAX):
            self._offset += len(chunk)
            self._take(chunk)

    def _take(self, chunk: bytes) -> None:
        *lines, self._pending = (self._pending + chunk).split(b"\n")
        if len(self._pending) > PENDING_BYTES_MAX:
            self._pending = b""
        for raw in lines:
            self._line_count += 1
            line = read_line(raw.decode("utf-8", "replace"))
            if line is not None:
                self._tell(line)

    def _tell(self, line: Line) -> None:
        said = told(line.message, line.logger)
        if said is None:
            return
        when = self._clock.date(line)
        if when.doubt:
            self._say_blind("clock", when.doubt)
        fields = {**said.fields, "log": f"{self._log_name}:{self._line_count}", "error_ns": when.error_ns}
        fields.setdefault("text", line.message)
        if said.kind == "hang_detected":
            fields["local_rank"] = line.local_rank
        rank = line.rank if said.speaker is None else said.speaker
        self._writer.write_about(said.kind, fields, life=None, rank=rank, t_ns=when.t_ns, wall_s=when.wall_s)
        self._markers.told(said.kind, when.t_ns)

    def _say_blind(self, cause: str, reason: str) -> None:
        if cause not in self._said:
            self._said.add(cause)
            self._writer.write_about("source_blind", {"source": "launcher_log", "reason": reason}, life=None)
