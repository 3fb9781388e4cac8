"""The record that comes before the harm."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chaos.agent.core import Agent
    from chaos.model.orders import Order


def record_fired(agent: Agent, order: Order, point: str) -> bool:
    """Writes `fault_fired` and waits until it is written; False when it is not, and then nothing may be done."""
    agent.emit(
        "fault_fired",
        {
            "fault": order.fault,
            "order_id": order.order_id,
            "verb": order.verb,
            "step": agent.step,
            "phase": agent.phase,
            "point": point,
            "pid": agent.pid,
        },
    )
    return agent.settled()
