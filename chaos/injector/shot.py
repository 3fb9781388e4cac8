"""One fault at one rank, and how far it has come."""

from __future__ import annotations

import time
from typing import Any

from chaos.faults.base import Fault
from chaos.model.events import Event
from chaos.model.identity import Life
from chaos.model.orders import Order
from chaos.model.plan import FaultPlan

# planned -> queued (the experiment asked for it) -> armed (an order lies in the rank) -> fired;
# or, from any of the first three, not_fired. A fired shot never goes back: faults fire once, across restarts.
STATES = ("planned", "queued", "armed", "fired", "not_fired")


class Shot:
    """State of one (fault, initial rank). Touched by the pump, and by the server's thread under the injector's lock."""

    def __init__(self, plan: FaultPlan, fault: Fault, params: Any, rank: int) -> None:
        self.plan, self.fault, self.params, self.rank = plan, fault, params, rank
        self.state = "planned"
        self.order: Order | None = None
        self.life: Life | None = None
        self.disarm_entry: str | None = None
        self.ticks_since_gone: int | None = None
        self.gone_ns = 0  # when its rank's connection ended
        self.fired: Event | None = None
        self.seen_after: list[Event] = []
        self.confirmed: bool | None = None
        self.held_entry: str | None = None
        self.fired_at = 0.0
        self.undone = False
        self.undo_failure = ""  # why the last try to undo it failed

    @property
    def is_settled(self) -> bool:
        """Nothing more is to be done about it before the run ends."""
        if self.state == "not_fired":
            return True
        return self.state == "fired" and self.confirmed is not None and not self.is_held

    @property
    def is_held(self) -> bool:
        return self.held_entry is not None and not self.undone

    @property
    def holds_rank_down(self) -> bool:
        """Whether it counts against `ranks_down` now."""
        return self.state == "armed" or self.is_held

    @property
    def lasts_over(self) -> bool:
        lasts = self.plan.lasts_s
        return self.is_held and lasts is not None and time.monotonic() - self.fired_at >= lasts
