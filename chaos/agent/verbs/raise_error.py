"""Raises an exception in the training thread."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from chaos.agent.verbs.fired import record_fired

if TYPE_CHECKING:
    from chaos.agent.core import Agent
    from chaos.model.orders import Order


def raise_error(agent: Agent, order: Order, point: str) -> None:
    """args: type (name of a built-in exception), message. The text says who did it."""
    kind = getattr(builtins, str(order.args.get("type", "RuntimeError")))
    text = f"nvrx-chaos: injected by {order.kind} of {agent.run}: {order.args.get('message', '')}"
    if record_fired(agent, order, point):
        raise kind(text)
