"""The orders a rank holds, and the moment it acts on one.

The channel's thread alone replaces the tuple of orders; the training thread reads it, and marks what it has
acted on. So neither can undo what the other did, and nobody needs a lock. Whether the lease is fresh is looked
at in the same step as the trigger: without a fresh lease, no harm.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from chaos import triggers
from chaos.agent.verbs import VERB_BY_NAME
from chaos.model.orders import LEASE_S, Order

if TYPE_CHECKING:
    from chaos.agent.core import Agent


class Orders:
    """`held` is a tuple that is replaced, never changed: reading it needs no lock. It may still show orders that
    are spent, until the channel's thread looks at it again."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.held: tuple[Order, ...] = ()
        self._lease_until_ns = 0
        self._spent: set[str] = set()  # begun, or refused: never begun again
        self._void: set[str] = set()  # taken back, or nobody stands behind it
        self._fired: set[str] = set()  # handed to its verb

    # the channel's thread

    def take(self, order: Order) -> None:
        """Takes an order for this life; one whose moment has passed is refused at once, with the reason."""
        agent = self._agent
        if order.order_id in self._spent:
            return
        if order.life != agent.life:
            agent.emit("fault_not_fired", {"fault": order.fault, "reason": "the order is for another life"})
            return
        if triggers.is_past(order.trigger, step=_step(agent), phase=agent.phase):
            self._spent.add(order.order_id)
            reason = f"rank {agent.rank} was already at step {agent.step}"
            agent.emit("fault_not_fired", {"fault": order.fault, "reason": reason})
            return
        self.renew()  # first: an order whose lease is not there yet would be void
        self.held = (*self.held, order)

    def renew(self) -> None:
        """The lease runs from its receipt, on this rank's clock. One that has run out cannot be brought back: whoever
        looks after us may have undone everything meanwhile."""
        if self.held and time.monotonic_ns() >= self._lease_until_ns:
            self.drop_all("the lease had run out")
        self._lease_until_ns = time.monotonic_ns() + int(LEASE_S * 1e9)
        self.held = tuple(order for order in self.held if order.order_id not in self._fired | self._void)

    def cancel(self, order_id: str) -> None:
        """The injector takes an order back, also one that waits for its `after_s`."""
        for order in self.held:
            if order.order_id == order_id:
                self._disarm(order, "taken back")

    def drop_all(self, reason: str) -> None:
        """Nobody stands behind the orders any more."""
        self._lease_until_ns = 0
        for order in self.held:
            self._disarm(order, reason)
        self.held = ()

    def _disarm(self, order: Order, reason: str) -> None:
        """Void first, then looked whether it fired; the training thread does it the other way round. At worst both
        see each other, and then nothing is done."""
        if order.order_id in self._void:
            return
        self._void.add(order.order_id)
        if order.order_id not in self._fired:
            self._agent.emit("fault_disarmed", {"fault": order.fault, "reason": reason})

    def forget(self) -> None:
        """In a forked child: hold nothing, say nothing."""
        self.held = ()

    # the training thread

    def reached(self, point: str) -> None:
        """A point was reached: acts on the orders that are due here."""
        agent = self._agent
        for order in self.held:
            if triggers.is_due(order.trigger, step=_step(agent), phase=agent.phase, point=point):
                self._act(order, point)

    def due_in_collective(self) -> Order | None:
        """The order that waits for a collective of the current phase, if there is one."""
        agent = self._agent
        for order in self.held:
            if self._is_over(order):
                continue
            if triggers.is_due(order.trigger, step=_step(agent), phase=agent.phase, point="in_collective"):
                return order
        return None

    def act_in_collective(self, order: Order) -> None:
        """The collective has been issued and not been waited for."""
        self._act(order, "in_collective")

    def _act(self, order: Order, point: str) -> None:
        agent = self._agent
        if self._is_over(order):
            return
        # Spent first: an asynchronous exception between here and the harm must not leave an order that fires later.
        self._spent.add(order.order_id)
        if order.trigger.after_s > 0:
            time.sleep(order.trigger.after_s)
        if time.monotonic_ns() >= self._lease_until_ns:
            self._disarm(order, "the lease had run out")
            return
        if agent.recorder is None:
            return  # what cannot be recorded must not be done
        self._fired.add(order.order_id)
        if order.order_id in self._void:
            return
        VERB_BY_NAME[order.verb](agent, order, point)

    def _is_over(self, order: Order) -> bool:
        return order.order_id in self._spent or order.order_id in self._void


def _step(agent: Agent) -> int:
    """The step the rank is in; before the first one, a step that no trigger names and none is past."""
    return -1 if agent.step is None else agent.step
