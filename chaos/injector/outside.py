"""Fires a fault from outside the rank: undo on disk, then harm, and no harm behind the point that was asked for."""

from __future__ import annotations

import time
from typing import Protocol

from chaos.doors import ProcessKiller, Ranks
from chaos.errors import ChaosError
from chaos.faults.base import ActsFromOutside
from chaos.history.writer import Writer
from chaos.injector.account import Account, Keeper
from chaos.injector.server import Reached
from chaos.injector.shot import Shot
from chaos.model.events import Event
from chaos.model.identity import Life
from chaos.model.orders import NOTIFY_WAIT_S

LATE_MARGIN_S = 0.02  # a notify answered this close to the end of the rank's wait would fall after it


class RankServerDoor(Ranks, Protocol):
    """Ranks, with the notify protocol."""

    def cancel(self, life: str, order_id: str) -> None: ...

    def answer(self, reached: Reached) -> None: ...

    def was_withdrawn(self, reached: Reached) -> bool: ...


class Outside:
    """Harms processes through the killer, each shot's target only. `timeout_s` bounds what holds without an end."""

    def __init__(
        self,
        account: Account,
        guard: Keeper,
        writer: Writer,
        *,
        ranks: RankServerDoor,
        killer: ProcessKiller,
        mark: str,
        timeout_s: float,
    ) -> None:
        self._account, self._guard, self._writer = account, guard, writer
        self._ranks, self._killer, self._mark, self._timeout_s = ranks, killer, mark, timeout_s

    def fire(self, shot: Shot, life: Life, reached: Reached | None) -> None:
        """`reached`: the rank waits at its point for this; None: it was aimed at no point."""
        fault = shot.fault
        if not isinstance(fault, ActsFromOutside):
            return
        undo = fault.undo(shot.params, life)
        entry = None
        if undo is not None:
            limit_s = shot.plan.lasts_s if shot.plan.lasts_s is not None else self._timeout_s
            entry = self._account.intend(shot, undo, limit_s)
        if reached is not None and self._is_late(reached):
            if entry is not None:
                self._guard.undo(entry)
            self._account.not_fired(shot, "late: the rank had waited for us long enough and went on")
            return
        shot.life, shot.held_entry, shot.fired_at = life, entry, time.monotonic()
        shot.fired = self._say_fired(shot, life, reached)
        shot.state = "fired"
        try:
            fault.harm(shot.params, life, self._killer, self._mark)
        except ChaosError as error:
            shot.confirmed = False
            self._account.say("fault_not_confirmed", shot, {"reason": error.message, "contrary": True})
            self._account.undo(shot)
        else:
            self._doubt_if_late(shot, reached)
        if reached is not None:
            self._ranks.answer(reached)
        self._account.close_disarm(shot, "done")

    def _doubt_if_late(self, shot: Shot, reached: Reached | None) -> None:
        """Harm that took longer than the rank waits may have fallen behind the point that `fault_fired` names."""
        if reached is not None and time.monotonic() - reached.at > NOTIFY_WAIT_S:
            shot.confirmed = False
            reason = "it acted only after the rank's wait had ended: where it fell is not known"
            self._account.say("fault_not_confirmed", shot, {"reason": reason, "contrary": False})
            self._account.undo(shot)

    def _is_late(self, reached: Reached) -> bool:
        waited = time.monotonic() - reached.at
        return waited > NOTIFY_WAIT_S - LATE_MARGIN_S or self._ranks.was_withdrawn(reached)

    def _say_fired(self, shot: Shot, life: Life, reached: Reached | None) -> Event:
        fields = {
            "fault": shot.plan.name,
            "order_id": shot.order.order_id if shot.order else None,
            "verb": "outside",
            "step": reached.step if reached else None,
            "phase": reached.phase if reached else None,
            "point": reached.point if reached else None,
            "pid": life.pid,
        }
        t_ns, wall_s = time.monotonic_ns(), time.time()
        self._writer.write_about("fault_fired", fields, life=life.id, rank=shot.rank, t_ns=t_ns, wall_s=wall_s)
        return Event(
            t_ns=t_ns,
            wall_s=wall_s,
            kind="fault_fired",
            life=life.id,
            rank=shot.rank,
            initial_rank=shot.rank,
            data=fields,
        )
