"""Writes `process_appeared` and `process_exited`, each once, as soon as role and status are known or never will be.

Both carry the time at which it happened, however much later it is told. Two sources that say different things of one
end are written as such: nothing may rest on either.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from chaos.observer.known import Known
from chaos.observer.overhear import EventWriter
from chaos.observer.roles import Role

CONNECTOR_SAYS_S = 1.0  # told at once, and read at the next look
LAUNCHER_SAYS_S = 2.0  # it looks at its ranks every 0.1 to 0.5 s, and its word has to be read by us


class Telling:
    """Single-threaded. `role_of` gives a role, or None as long as it may still change."""

    def __init__(self, writer: EventWriter, role_of: Callable[[Known], Role | None], *, has_news: bool) -> None:
        self._writer = writer
        self._role_of = role_of
        self.has_news = has_news
        self._pending: list[Known] = []

    def add(self, known: Known) -> None:
        """A newcomer."""
        if not self._appeared(known):
            self._pending.append(known)

    def ended(self, known: Known) -> None:
        """One of them has ended; its claims so far are with it."""
        if known in self._pending:
            self._pending.remove(known)
        if not self._exited(known):
            self._pending.append(known)

    def look_again(self) -> None:
        """Tells what has become clear."""
        self._pending = [known for known in self._pending if not self._settled(known)]

    def claimed(self, known: Known) -> None:
        """One more source has said how it ended. What was told already may be in dispute now."""
        if known.told:
            self._check(known)

    def close(self) -> None:
        """Nothing more will be learnt: what is still unclear is told as it is."""
        for known in self._pending:
            if not known.role:
                self._write_appeared(known, self._role_of(known) or ("other", None))
            if known.ended_ns is not None:
                self._write_exited(known)
        self._pending = []

    def _settled(self, known: Known) -> bool:
        return self._appeared(known) if known.ended_ns is None else self._exited(known)

    def _appeared(self, known: Known) -> bool:
        if not known.role:
            role = self._role_of(known)
            if role is None:
                return False
            self._write_appeared(known, role)
        return True

    def _exited(self, known: Known) -> bool:
        if not self._appeared(known) or (known.status()[2] == "none" and self._may_still_be_said(known)):
            return False
        self._write_exited(known)
        return True

    def _may_still_be_said(self, known: Known) -> bool:
        assert known.ended_ns is not None
        since_s = (time.monotonic_ns() - known.ended_ns) / 1e9
        by_kernel = self.has_news and since_s < CONNECTOR_SAYS_S
        return by_kernel or (known.role == "rank" and since_s < LAUNCHER_SAYS_S)

    def _check(self, known: Known) -> None:
        """Says once that the word on one end is no longer to be trusted."""
        dispute = "" if known.disputed else known.dispute()
        if dispute:
            known.disputed = True
            reason = f"how pid {known.life.pid} ({known.role}) ended is in dispute: {dispute}"
            self._write(known, "source_blind", {"source": "exit_status", "reason": reason}, None, None)

    def _write_appeared(self, known: Known, role: Role) -> None:
        known.role, number = role
        known.rank, known.of_rank = (number, None) if known.role == "rank" else (None, number)
        info = known.info
        fields = {
            "pid": info.pid,
            "ppid": info.ppid,
            "role": known.role,
            "of_rank": known.of_rank,
            "command": " ".join(info.command)[:300],
        }
        self._write(known, "process_appeared", fields, known.appeared_ns, known.appeared_wall_s)

    def _write_exited(self, known: Known) -> None:
        code, ended_by, source = known.status()
        if known.dispute():
            code, ended_by, source = None, None, "none"
        fields = {"pid": known.life.pid, "role": known.role, "code": code, "signal": ended_by, "source": source}
        self._write(known, "process_exited", fields, known.ended_ns, known.ended_wall_s)
        known.told = True
        self._check(known)

    def _write(
        self, known: Known, kind: str, fields: dict[str, object], t_ns: int | None, wall_s: float | None
    ) -> None:
        self._writer.write_about(kind, fields, life=known.life.id, rank=known.rank, t_ns=t_ns, wall_s=wall_s)
