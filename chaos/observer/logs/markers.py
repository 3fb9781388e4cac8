"""Whether the log said what it must have said: a launcher that starts a dead rank anew says so first.

A log level hides words without a trace. The process table shows that they were due.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SLACK_NS = 3_000_000_000  # between a rank's end, the launcher's word on it, and our reading of that word
_SIGTERM = 15  # how launchers stop the ranks that are well


class Markers:
    """Hears of ranks that end and appear, in any order, and of failures that the log told."""

    def __init__(self) -> None:
        self._failed_ns: dict[int, list[int]] = {}  # rank -> when its processes ended, but for those stopped or done
        self._appeared_ns: dict[int, list[int]] = {}
        self._told_ns: list[int] = []

    def process(self, kind: str, fields: Mapping[str, Any], rank: int | None, t_ns: int) -> None:
        """An event of the process table."""
        if fields.get("role") != "rank" or rank is None:
            return
        if kind == "process_appeared":
            self._appeared_ns.setdefault(rank, []).append(t_ns)
        elif kind == "process_exited" and fields.get("code") != 0 and fields.get("signal") != _SIGTERM:
            self._failed_ns.setdefault(rank, []).append(t_ns)

    def told(self, kind: str, t_ns: int) -> None:
        """The log told an event."""
        if kind == "worker_failed":
            self._told_ns.append(t_ns)

    def hidden(self) -> str:
        """Why the log is not to be trusted to have said all, or an empty string."""
        for rank, ended_ns, again_ns in self._restarts():
            if not any(ended_ns - SLACK_NS <= t_ns <= again_ns + SLACK_NS for t_ns in self._told_ns):
                return (
                    f"rank {rank} died and was started again, and the log never said `failed (exitcode`: a log level"
                    " hides what the launcher says; unset LOGLEVEL and TORCH_LOGS, and keep its stderr"
                )
        return ""

    def _restarts(self) -> list[tuple[int, int, int]]:
        """(rank, when it ended, when its next process appeared)."""
        return [
            (rank, ended_ns, min(later))
            for rank, ends in sorted(self._failed_ns.items())
            for ended_ns in ends
            if (later := [t_ns for t_ns in self._appeared_ns.get(rank, []) if t_ns > ended_ns])
        ]
