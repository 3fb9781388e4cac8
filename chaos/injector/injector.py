"""Arms, fires, confirms, undoes; remembers what has fired. Decides that and when; what a fault does is its own.

`tick` and `on_event` are called by the session's pump; `on_reached` and `on_gone` by the rank server's thread.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Sequence
from typing import Protocol

import msgspec

from chaos.doors import ProcessKiller, ProcessReader, Ranks
from chaos.errors import ChaosError, NotUndone, TargetGone
from chaos.faults.base import ActsFromOutside, Confirmation, ConfirmedByLooking, Fault, FeltInRank
from chaos.faults.catalogue import BY_NAME
from chaos.guard import limits
from chaos.history.writer import Writer
from chaos.injector.server import Reached
from chaos.injector.shot import Shot
from chaos.model.events import Event
from chaos.model.identity import Life
from chaos.model.orders import LEASE_S, NOTIFY_WAIT_S, Order, Trigger
from chaos.model.plan import At, FaultPlan, Plan
from chaos.model.undo import Undo, Undone

LOOK_FOR_S = 1.0  # how long the process table is looked at for an effect that is a state
LATE_MARGIN_S = 0.02  # a notify answered this close to the end of the rank's wait would fall after it
EVENTS_KEPT = 5000  # after a firing, for its confirmation


class Keeper(Protocol):
    """The guard, as far as the injector needs it."""

    def intend(self, undo: Undo, fault: str | None = None, limit_s: float | None = None) -> str: ...

    def undo(self, entry: str) -> Undone: ...

    def close_entry(self, entry: str, how: str) -> None: ...


class RankServerDoor(Ranks, Protocol):
    """Ranks, with the notify protocol."""

    def cancel(self, life: str, order_id: str) -> None: ...

    def answer(self, reached: Reached) -> None: ...

    def was_withdrawn(self, reached: Reached) -> bool: ...


class Injector:
    """One run's faults. Every method is safe to call from the pump; see the module for threads."""

    def __init__(
        self,
        plan: Plan,
        *,
        ranks: RankServerDoor,
        guard: Keeper,
        killer: ProcessKiller,
        reader: ProcessReader,
        writer: Writer,
        mark: str,
    ) -> None:
        self._plan = plan
        self._ranks, self._guard, self._killer = ranks, guard, killer
        self._reader, self._writer, self._mark = reader, writer, mark
        self._lock = threading.RLock()
        self._steady_at: float | None = None
        self._events_seen: set[str] = set()
        self._refusing = False
        self._trouble: Exception | None = None  # met on the server's thread, raised by the next tick
        self.shots = [shot for fault in plan.faults for shot in _shots_of(fault)]

    # the experiment

    def arm(self, fault_name: str) -> None:
        """Queues a fault; its order is sent when steady state, predecessors and limits allow."""
        with self._lock:
            for shot in self.shots:
                if shot.plan.name == fault_name and shot.state == "planned" and not self._refusing:
                    shot.state = "queued"

    def refuse_more(self) -> None:
        """Starts no new harm from here on."""
        with self._lock:
            self._refusing = True

    @property
    def is_settled(self) -> bool:
        with self._lock:
            return all(shot.is_settled for shot in self.shots)

    # the pump

    def steady_state_met(self) -> None:
        self._steady_at = time.monotonic()

    def on_event(self, event: Event) -> None:
        """Learns from the history: what fired, what went by, what followed."""
        with self._lock:
            if self._steady_at is not None:
                self._events_seen.add(event.kind)
            for shot in self.shots:
                self._learn(shot, event)

    def tick(self) -> None:
        """Does what is due now.

        Raises what ends the run: an undo that could not be written down (then nothing was done), a history that
        cannot be written. Told once; from then on there is no new harm.
        """
        with self._lock:
            trouble, self._trouble = self._trouble, None
            if trouble is not None:
                raise trouble
            try:
                self._do_what_is_due()
            except Exception:
                self._refusing = True
                raise

    def _do_what_is_due(self) -> None:
        for shot in self.shots:
            self._requeue_if_lost(shot)
        for shot in self.shots:
            if shot.state == "queued" and not self._refusing:
                self._try(shot)
            elif shot.state == "fired":
                self._confirm(shot)
                if shot.lasts_over:
                    self._undo(shot)

    def undo_held(self) -> None:
        """Takes back what is held and armed, in that order."""
        with self._lock:
            self._refusing = True
            for shot in self.shots:
                if shot.is_held:
                    self._undo(shot)
            for shot in self.shots:
                if shot.state == "armed":
                    self._disarm(shot, "the run is ending")

    def finish(self) -> None:
        """Says of every planned fault what became of it, so that planned and fired can be compared."""
        with self._lock:
            for shot in self.shots:
                if shot.state in ("planned", "queued", "armed"):
                    self._not_fired(shot, "the run ended before its trigger was reached")
                elif shot.state == "fired" and shot.confirmed is None:
                    self._confirm(shot)
                if shot.state == "fired" and shot.confirmed is None:
                    shot.confirmed = False
                    self._say("fault_not_confirmed", shot, {"reason": "no outside evidence", "contrary": False})

    # the server's thread

    def on_gone(self, life: str) -> None:
        """A rank's connection ended; whether its order fired is in its history, read by the next ticks."""
        with self._lock:
            for shot in self.shots:
                if shot.state == "armed" and shot.life is not None and shot.life.id == life:
                    shot.ticks_since_gone = 0

    def on_reached(self, reached: Reached) -> None:
        """A rank waits at its point for us to act from outside. Raises nothing: the next tick does, for the session."""
        with self._lock:
            for shot in self.shots:
                if shot.state == "armed" and shot.order is not None and shot.order.order_id == reached.order_id:
                    try:
                        self._fire_from_outside(shot, reached.life, reached)
                    except Exception as error:
                        self._refusing, self._trouble = True, error

    # inside

    def _learn(self, shot: Shot, event: Event) -> None:
        order_id = shot.order.order_id if shot.order is not None else None
        if event.data.get("fault") == shot.plan.name and event.initial_rank in (None, shot.rank):
            if event.kind == "fault_fired" and shot.state == "armed" and event.data.get("order_id") == order_id:
                self._fired_in_rank(shot, event)
                return
            if event.kind == "fault_not_fired" and shot.state == "armed":
                shot.state = "not_fired"
                self._close_disarm(shot, "done")
                return
            if event.kind == "fault_disarmed" and shot.state == "armed" and self._is_about(event, shot):
                self._not_fired(shot, f"its order was disarmed in the rank: {event.data.get('reason')}")
                return
        if shot.fired is not None and len(shot.seen_after) < EVENTS_KEPT:
            shot.seen_after.append(event)
        if shot.is_held and event.kind == "process_exited" and shot.life and event.life == shot.life.id:
            self._undo(shot)

    @staticmethod
    def _is_about(event: Event, shot: Shot) -> bool:
        return shot.life is not None and event.life == shot.life.id and shot.ticks_since_gone is None

    def _fired_in_rank(self, shot: Shot, event: Event) -> None:
        shot.state, shot.fired, shot.fired_at = "fired", event, time.monotonic()
        self._close_disarm(shot, "done")

    def _requeue_if_lost(self, shot: Shot) -> None:
        if shot.ticks_since_gone is None:
            return
        shot.ticks_since_gone += 1
        if shot.ticks_since_gone < 3:  # its last lines are read by then
            return
        shot.ticks_since_gone = None
        if shot.state == "armed":
            self._measure_disarmed(shot)
            shot.state, shot.order, shot.life = "queued", None, None

    def _try(self, shot: Shot) -> None:
        if not self._is_due(shot.plan.at) or not self._limits_allow(shot):
            return
        life = self._life_of(shot.rank)
        if life is None:
            return  # its rank is not up (yet, or again)
        at = shot.plan.at
        if at.step is None and isinstance(shot.fault, ActsFromOutside):
            shot.state = "armed"
            self._fire_from_outside(shot, life, None)
        elif isinstance(shot.fault, FeltInRank):
            self._send_order(shot, life, _trigger(at))
        else:
            self._not_fired(shot, f"{shot.fault.name} cannot be aimed at a step")

    def _is_due(self, at: At) -> bool:
        if self._steady_at is None:
            return False
        if at.after_s is not None:
            return time.monotonic() - self._steady_at >= at.after_s
        return at.event is None or at.event in self._events_seen

    def _limits_allow(self, shot: Shot) -> bool:
        down = {other.rank for other in self.shots if other.holds_rank_down}
        begun = sum(other.state in ("fired", "armed") for other in self.shots)
        return limits.allows(self._plan.limits, rank=shot.rank, down=down, begun=begun)

    def _life_of(self, rank: int) -> Life | None:
        for life_id, initial_rank in self._ranks.connected_lives().items():
            if initial_rank == rank:
                info = self._reader.info(int(life_id.rsplit("-", 2)[1]))
                if info is not None and info.life.id == life_id:
                    return info.life
        return None

    def _send_order(self, shot: Shot, life: Life, trigger: Trigger) -> None:
        assert isinstance(shot.fault, FeltInRank)
        verb, args = shot.fault.verb(shot.params)
        order = Order(
            order_id=secrets.token_hex(8),
            fault=shot.plan.name,
            kind=shot.fault.name,
            verb=verb,
            args=args,
            trigger=trigger,
            life=life.id,
        )
        undo = Undo(verb="disarm", args={"life": msgspec.to_builtins(life), "lease_s": LEASE_S})
        shot.disarm_entry = self._intend(shot, undo, None)
        shot.order, shot.life, shot.state = order, life, "armed"
        # Said before it is sent: an order may fire at once.
        self._say("fault_armed", shot, {"order_id": order.order_id})
        try:
            self._ranks.send_order(order)
        except TargetGone:
            self.on_gone(life.id)

    def _fire_from_outside(self, shot: Shot, life: Life, reached: Reached | None) -> None:
        fault = shot.fault
        if not isinstance(fault, ActsFromOutside) or self._refusing:
            return
        undo = fault.undo(shot.params, life)
        entry = None
        if undo is not None:
            limit_s = shot.plan.lasts_s if shot.plan.lasts_s is not None else self._plan.limits.timeout_s
            entry = self._intend(shot, undo, limit_s)
        if reached is not None and self._is_late(reached):
            if entry is not None:
                self._guard.undo(entry)
            self._not_fired(shot, "late: the rank had waited for us long enough and went on")
            return
        shot.life, shot.held_entry, shot.fired_at = life, entry, time.monotonic()
        shot.fired = self._say_fired(shot, life, reached)
        shot.state = "fired"
        try:
            fault.harm(shot.params, life, self._killer, self._mark)
        except ChaosError as error:
            shot.confirmed = False
            self._say("fault_not_confirmed", shot, {"reason": error.message, "contrary": True})
            self._undo(shot)
        else:
            self._doubt_if_late(shot, reached)
        if reached is not None:
            self._ranks.answer(reached)
        self._close_disarm(shot, "done")

    def _intend(self, shot: Shot, undo: Undo, limit_s: float | None) -> str:
        """The entry's id. Where it cannot be had, nothing is done: the shot ends, and the error goes on."""
        try:
            return self._guard.intend(undo, fault=shot.plan.name, limit_s=limit_s)
        except ChaosError as error:
            try:
                self._not_fired(shot, f"nothing was done, because its undo was not written down: {error.message}")
            except (ChaosError, OSError):
                pass  # the error that came first says more
            raise

    def _doubt_if_late(self, shot: Shot, reached: Reached | None) -> None:
        """Harm that took longer than the rank waits may have fallen behind the point that `fault_fired` names."""
        if reached is not None and time.monotonic() - reached.at > NOTIFY_WAIT_S:
            shot.confirmed = False
            reason = "it acted only after the rank's wait had ended: where it fell is not known"
            self._say("fault_not_confirmed", shot, {"reason": reason, "contrary": False})
            self._undo(shot)

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

    def _confirm(self, shot: Shot) -> None:
        if shot.confirmed is not None or shot.fired is None or shot.life is None:
            return
        seen: Confirmation
        if isinstance(shot.fault, ConfirmedByLooking):
            seen = shot.fault.looks_right(shot.params, shot.life, self._reader)
            if seen.acted is None and time.monotonic() - shot.fired_at > LOOK_FOR_S:
                seen = Confirmation(acted=None, how=seen.how)
                shot.confirmed = False
                self._say("fault_not_confirmed", shot, {"reason": seen.how, "contrary": False})
                return
        else:
            seen = shot.fault.took_effect(shot.params, shot.fired, shot.seen_after)
        if seen.acted is None:
            return
        shot.confirmed = seen.acted
        if seen.acted:
            self._say("fault_confirmed", shot, {"how": seen.how, "evidence": list(seen.evidence)})
        else:
            self._say("fault_not_confirmed", shot, {"reason": seen.how, "contrary": True})

    def _undo(self, shot: Shot) -> None:
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
        self._say("fault_undone", shot, {"how": result.how, "measured": result.measured})

    def _say_undo_failed(self, shot: Shot, reason: str) -> None:
        """Once for each reason: it is tried again with every tick."""
        if reason != shot.undo_failure:
            shot.undo_failure = reason
            self._say("undo_failed", shot, {"reason": reason})

    def _disarm(self, shot: Shot, reason: str) -> None:
        if shot.order is not None and shot.life is not None:
            self._ranks.cancel(shot.life.id, shot.order.order_id)
        # Nobody has answered, so the entry stays open: the guard closes it when process or lease is measured gone.
        shot.disarm_entry = None
        self._not_fired(shot, reason)

    def _measure_disarmed(self, shot: Shot) -> None:
        """Its connection is gone and nothing fired: the guard looks whether process or lease is gone, too."""
        entry, shot.disarm_entry = shot.disarm_entry, None
        if entry is not None:
            self._guard.undo(entry)

    def _close_disarm(self, shot: Shot, how: str) -> None:
        entry, shot.disarm_entry = shot.disarm_entry, None
        if entry is not None:
            self._guard.close_entry(entry, how)

    def _not_fired(self, shot: Shot, reason: str) -> None:
        shot.state = "not_fired"
        self._say("fault_not_fired", shot, {"reason": reason})
        self._close_disarm(shot, "done")

    def _say(self, kind: str, shot: Shot, fields: dict[str, object]) -> None:
        life = shot.life.id if shot.life is not None else None
        self._writer.write_about(kind, {"fault": shot.plan.name, **fields}, life=life, rank=shot.rank)


def _shots_of(plan: FaultPlan) -> Sequence[Shot]:
    fault: Fault = BY_NAME[plan.fault]
    params = msgspec.convert(plan.params, fault.Params)
    return [Shot(plan, fault, params, rank) for rank in plan.ranks]


def _trigger(at: At) -> Trigger:
    if at.step is None:
        return Trigger()
    return Trigger(step=at.step, phase=at.phase, point=at.point, after_s=at.point_after_s)
