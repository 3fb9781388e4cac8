"""Reads the job's log as it grows and turns what launcher and rank monitors say (NVRx 0.4.1) into events.

A line's own time stamp has milliseconds of the wall clock, cut and not rounded; the event is put on our
clock by the difference of the two clocks when the line was read. Both errors are stated in `error_ns`.
"""

from __future__ import annotations

import re
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from chaos.history.writer import Writer

STAMP_ERROR_NS = 2_000_000  # milliseconds, cut, and the reading of two clocks one after the other
READ_BYTES_MAX = 1 << 20

_STAMP = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] \[\w+\] \[([^\]]*)\] (.*)")
_FAILED = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+) \(pid: (\d+)\)")
_HEARTBEAT = re.compile(r"Did not get (initial|subsequent) heartbeat\. Waited ([\d.]+) seconds")
_SECTION = re.compile(r"Section '([^']*)' has been open for|Was out of section for")
_JOINED = re.compile(r"has joined (?:round (\d+) of )?the rendezvous")
_MONITOR = re.compile(r"RankMonServer\d+@[^:]*:(\d+)$")


class LauncherLog:
    """`poll()` reads what is new and writes the events found. `log_name` is how events cite the file."""

    def __init__(self, path: Path, log_name: str, writer: Writer) -> None:
        self._path, self._log_name, self._writer = path, log_name, writer
        self._offset = 0
        self._line_count = 0
        self._pending = b""
        self._blind = False

    def poll(self, *, last: bool = False) -> None:
        """Reads to the end of the file as it is now. A file that cannot be read is said once, and never fatal.

        Before the job starts there is no file yet; only at the last look is a file that never came a blind source.
        """
        try:
            with open(self._path, "rb") as log:
                log.seek(self._offset)
                while chunk := log.read(READ_BYTES_MAX):
                    self._offset += len(chunk)
                    self._take(chunk)
        except FileNotFoundError as error:
            if last or self._offset:
                self._say_blind(error)
        except OSError as error:
            self._say_blind(error)

    def _say_blind(self, error: OSError) -> None:
        if not self._blind:
            self._blind = True
            self._writer.write_about("source_blind", {"source": "launcher_log", "reason": str(error)}, life=None)

    def _take(self, chunk: bytes) -> None:
        *lines, self._pending = (self._pending + chunk).split(b"\n")
        for line in lines:
            self._line_count += 1
            self._read_line(line.decode("utf-8", "replace"))

    def _read_line(self, text: str) -> None:
        found = _STAMP.search(text)
        if found is None:
            return
        stamp, who, message = found.groups()
        event = parse_message(who, message)
        if event is None:
            return
        kind, rank, fields = event
        try:
            t_ns, wall_s = on_our_clock(stamp)
        except ValueError:
            return  # no day of any calendar: some other line that only looks like one
        fields |= {
            "log": f"{self._log_name}:{self._line_count}",
            "error_ns": STAMP_ERROR_NS,
            "text": message[:300],
        }
        self._writer.write_about(kind, fields, life=None, rank=rank, t_ns=t_ns, wall_s=wall_s)


def parse_message(who: str, message: str) -> tuple[str, int | None, dict[str, Any]] | None:
    """(kind, rank, fields) of one message of launcher or rank monitor, or None when it says nothing for us."""
    if found := _FAILED.search(message):
        code, local_rank, pid = map(int, found.groups())
        return "worker_failed", None, {"local_rank": local_rank, "pid": pid, "code": code}
    monitor = _MONITOR.search(who)
    rank = int(monitor[1]) if monitor else None
    if found := _HEARTBEAT.search(message):
        return "hang_detected", rank, {"waited_s": float(found[2])}
    if _SECTION.search(message):
        return "hang_detected", rank, {"waited_s": None}
    if _JOINED.search(message):
        return "rendezvous_joined", None, {}
    return None


def on_our_clock(stamp: str) -> tuple[int, float]:
    """A log's local time as (CLOCK_MONOTONIC ns, wall seconds), by the difference of the clocks now."""
    wall_s = datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S,%f").timestamp()
    return time.monotonic_ns() + int((wall_s - time.time()) * 1e9), wall_s
