"""What is written down about a shot: in the ledger before it harms, in the history when something became of it."""

from __future__ import annotations

from typing import Protocol

from chaos.errors import ChaosError, NotUndone
from chaos.history.writer import Writer
from chaos.injector.shot import Shot
from chaos.model.undo import Undo, Undone


class Keeper(Protocol):
    """The guard, as far as the injector needs it."""

    def intend(self, undo: Undo, fault: str | None = None, limit_s: float | None = None) -> str: ...

    def undo(self, entry: str, *, silent_since_ns: int | None = None) -> Undone: ...

    def close_entry(self, entry: str, how: str) -> None: ...


class Account:
    """Ledger and history of one run's shots."""

    def __init__(self, guard: Keeper, writer: Writer) -> None:
        self._guard, self._writer = guard, writer

    # history

    def say(self, kind: str, shot: Shot, fields: dict[str, object]) -> None:
        """One event about it, and about the process it is aimed at, where there is one by now."""
        life = shot.life.id if shot.life is not None else None
        self._writer.write_about(kind, {"fault": shot.plan.name, **fields}, life=life, rank=shot.rank)

    def intend(self, shot: Shot, undo: Undo, limit_s: float | None) -> str:
        """The entry's id. Where it cannot be had, nothing is done: the shot ends, and the error goes on."""
        try:
            return self._guard.intend(undo, fault=shot.plan.name, limit_s=limit_s)
        except ChaosError as error:
            try:
                self.not_fired(shot, f"nothing was done, because its undo was not written down: {error.message}")
            except (ChaosError, OSError):
                pass  # the error that came first says more
            raise

    def not_fired(self, shot: Shot, reason: str) -> None:
        """The end of a shot that did no harm, and why."""
        shot.state = "not_fired"
        self.say("fault_not_fired", shot, {"reason": reason})
        self.close_disarm(shot, "done")

    # ledger

    def undo(self, shot: Shot) -> None:
        """Takes back what the shot holds, if it holds something; measured by the guard."""
        entry = shot.held_entry
        if entry is None or shot.undone:
            return
        try:
            result = self._guard.undo(entry)
        except NotUndone as error:
            self._say_undo_failed(shot, error.message)
            return
        if result.how == "failed":
            self._say_undo_failed(shot, result.detail)
            return
        shot.undone = True
        self.say("fault_undone", shot, {"how": result.how, "measured": result.measured})

    def _say_undo_failed(self, shot: Shot, reason: str) -> None:
        """Once for each reason: it is tried again with every tick."""
        if reason != shot.undo_failure:
            shot.undo_failure = reason
            self.say("undo_failed", shot, {"reason": reason})

    def close_disarm(self, shot: Shot, how: str) -> None:
        """Its order cannot fire any more."""
        entry, shot.disarm_entry = shot.disarm_entry, None
        if entry is not None:
            self._guard.close_entry(entry, how)
