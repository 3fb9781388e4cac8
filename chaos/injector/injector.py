"""Arms, fires, confirms, undoes; remembers what has fired. Decides that and when; what a fault does is its own.

`tick` and `on_event` are called by the session's pump; `on_reached` and `on_gone` by the rank server's thread.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Sequence

import msgspec

from chaos.doors import ProcessKiller, ProcessReader
from chaos.errors import TargetGone
from chaos.faults.base import ActsFromOutside, Confirmation, ConfirmedByLooking, Fault, FeltInRank
from chaos.faults.catalogue import BY_NAME
from chaos.guard import limits
from chaos.history.writer import Writer
from chaos.injector.account import Account, Keeper
from chaos.injector.outside import Outside, RankServerDoor
from chaos.injector.server import Reached
from chaos.injector.shot import Shot
from chaos.model.events import Event
from chaos.model.identity import Life
from chaos.model.orders import LEASE_MARGIN_S, LEASE_S, Order, Trigger
from chaos.model.plan import At, FaultPlan, Plan
from chaos.model.undo import Undo

LOOK_FOR_S = 1.0  # how long the process table is looked at for an effect that is a state
EVENTS_KEPT = 5000  # after a firing, for its confirmation


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
        self._ranks, self._guard, self._reader = ranks, guard, reader
        self._account = Account(guard, writer)
        self._outside = Outside(
            self._account, guard, writer, ranks=ranks, killer=killer, mark=mark, timeout_s=plan.limits.timeout_s
        )
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
                    self._account.undo(shot)

    def undo_held(self) -> None:
        """Takes back what is held and armed, in that order."""
        with self._lock:
            self._refusing = True
            for shot in self.shots:
                if shot.is_held:
                    self._account.undo(shot)
            for shot in self.shots:
                if shot.state == "armed":
                    self._disarm(shot, "the run is ending")

    def finish(self) -> None:
        """Says of every planned fault what became of it, so that planned and fired can be compared."""
        with self._lock:
            for shot in self.shots:
                if shot.state in ("planned", "queued", "armed"):
                    self._account.not_fired(shot, "the run ended before its trigger was reached")
                elif shot.state == "fired" and shot.confirmed is None:
                    self._confirm(shot)
                if shot.state == "fired" and shot.confirmed is None:
                    shot.confirmed = False
                    self._account.say("fault_not_confirmed", shot, {"reason": "no outside evidence", "contrary": False})

    # the server's thread

    def on_gone(self, life: str) -> None:
        """A rank's connection ended; whether its order fired is in its history, read by the next ticks."""
        with self._lock:
            for shot in self.shots:
                if shot.state == "armed" and shot.life is not None and shot.life.id == life:
                    shot.ticks_since_gone, shot.gone_ns = 0, time.monotonic_ns()

    def on_reached(self, reached: Reached) -> None:
        """A rank waits at its point for us to act from outside. Raises nothing: the next tick does, for the session."""
        with self._lock:
            for shot in self.shots:
                if shot.state == "armed" and shot.order is not None and shot.order.order_id == reached.order_id:
                    try:
                        if not self._refusing:
                            self._outside.fire(shot, reached.life, reached)
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
                self._account.close_disarm(shot, "done")
                return
            if event.kind == "fault_disarmed" and shot.state == "armed" and self._is_about(event, shot):
                self._account.not_fired(shot, f"its order was disarmed in the rank: {event.data.get('reason')}")
                return
        if shot.fired is not None and len(shot.seen_after) < EVENTS_KEPT:
            shot.seen_after.append(event)
        if shot.is_held and event.kind == "process_exited" and shot.life and event.life == shot.life.id:
            self._account.undo(shot)

    @staticmethod
    def _is_about(event: Event, shot: Shot) -> bool:
        return shot.life is not None and event.life == shot.life.id and shot.ticks_since_gone is None

    def _fired_in_rank(self, shot: Shot, event: Event) -> None:
        shot.state, shot.fired, shot.fired_at = "fired", event, time.monotonic()
        self._account.close_disarm(shot, "done")

    def _requeue_if_lost(self, shot: Shot) -> None:
        if shot.ticks_since_gone is None:
            return
        shot.ticks_since_gone += 1
        if shot.ticks_since_gone < 3 or self._may_still_fire(shot):  # its last lines are read by then
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
            self._outside.fire(shot, life, None)
        elif isinstance(shot.fault, FeltInRank):
            self._send_order(shot, life, _trigger(at))
        else:
            self._account.not_fired(shot, f"{shot.fault.name} cannot be aimed at a step")

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
        shot.disarm_entry = self._account.intend(shot, undo, None)
        shot.order, shot.life, shot.state = order, life, "armed"
        # Said before it is sent: an order may fire at once.
        self._account.say("fault_armed", shot, {"order_id": order.order_id})
        try:
            self._ranks.send_order(order)
        except TargetGone:
            self.on_gone(life.id)  # what was being sent may have arrived: it is over with its lease like any other

    def _confirm(self, shot: Shot) -> None:
        if shot.confirmed is not None or shot.fired is None or shot.life is None:
            return
        seen: Confirmation
        if isinstance(shot.fault, ConfirmedByLooking):
            seen = shot.fault.looks_right(shot.params, shot.life, self._reader)
            if seen.acted is None and time.monotonic() - shot.fired_at > LOOK_FOR_S:
                seen = Confirmation(acted=None, how=seen.how)
                shot.confirmed = False
                self._account.say("fault_not_confirmed", shot, {"reason": seen.how, "contrary": False})
                return
        else:
            seen = shot.fault.took_effect(shot.params, shot.fired, shot.seen_after)
        if seen.acted is None:
            return
        shot.confirmed = seen.acted
        if seen.acted:
            self._account.say("fault_confirmed", shot, {"how": seen.how, "evidence": list(seen.evidence)})
        else:
            self._account.say("fault_not_confirmed", shot, {"reason": seen.how, "contrary": True})

    def _disarm(self, shot: Shot, reason: str) -> None:
        if shot.order is not None and shot.life is not None:
            self._ranks.cancel(shot.life.id, shot.order.order_id)
        # Nobody has answered, so the entry stays open: the guard closes it when process or lease is measured gone.
        shot.disarm_entry = None
        self._account.not_fired(shot, reason)

    def _may_still_fire(self, shot: Shot) -> bool:
        """A rank that lives without its connection keeps the order until the lease is over. Looked at with every tick:
        nobody may be kept waiting for it."""
        over_ns = shot.gone_ns + int((LEASE_S + LEASE_MARGIN_S) * 1e9)
        if shot.life is None or time.monotonic_ns() >= over_ns:
            return False
        return self._reader.is_alive(shot.life)

    def _measure_disarmed(self, shot: Shot) -> None:
        """Its connection is gone and nothing fired: the guard looks whether process or lease is gone, too."""
        entry, shot.disarm_entry = shot.disarm_entry, None
        if entry is not None:
            self._guard.undo(entry, silent_since_ns=shot.gone_ns)


def _shots_of(plan: FaultPlan) -> Sequence[Shot]:
    fault: Fault = BY_NAME[plan.fault]
    params = msgspec.convert(plan.params, fault.Params)
    return [Shot(plan, fault, params, rank) for rank in plan.ranks]


def _trigger(at: At) -> Trigger:
    if at.step is None:
        return Trigger()
    return Trigger(step=at.step, phase=at.phase, point=at.point, after_s=at.point_after_s)
