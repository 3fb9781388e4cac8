"""Tells the injector that the point is reached, and waits for it to act from outside."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from chaos.model.orders import NOTIFY_WAIT_S

if TYPE_CHECKING:
    from chaos.agent.core import Agent
    from chaos.model.orders import Order


def notify(agent: Agent, order: Order, point: str) -> None:
    """Waits at most NOTIFY_WAIT_S; `fault_fired` is the injector's to write, so none is written here.

    When the wait ends first nothing was done, and the injector is told to do nothing any more: what
    comes late would fall somewhere else.
    """
    channel = agent.channel
    if channel is None:
        return
    # What led here must be on disk before the injector may stop or kill this process.
    if not agent.settled():
        return
    channel.reached(order, step=agent.step, phase=agent.phase, point=point)
    deadline = time.monotonic() + NOTIFY_WAIT_S
    while time.monotonic() < deadline:
        if channel.was_answered(order.order_id):
            return
        time.sleep(0.0005)
    # Between the last look and this line the injector may have acted; it says `fault_fired` itself
    # then, and ignores the withdrawal.
    channel.withdraw(order)
