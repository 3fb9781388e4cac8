"""Sends this process a signal."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from chaos.agent.verbs.fired import record_fired

if TYPE_CHECKING:
    from chaos.agent.core import Agent
    from chaos.model.orders import Order


def signal_self(agent: Agent, order: Order, point: str) -> None:
    """args: signal (name without SIG). A rank can only ever signal itself."""
    number = signal.Signals[f"SIG{order.args['signal']}"]
    if record_fired(agent, order, point):
        os.kill(os.getpid(), number)
