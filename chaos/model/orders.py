"""Harm that a rank is told to do to itself: a closed set of verbs, a trigger, a lease.

Plain dataclasses and the standard library only: ranks import this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

# What a rank can do to itself. `notify` harms nothing: the rank reports the point and waits,
# at most NOTIFY_WAIT_S, for the injector to act from outside.
VERBS: tuple[str, ...] = ("raise_error", "signal_self", "notify")

LEASE_S = 3.0  # an order is void this long after the last renewal, by the rank's own clock
LEASE_RENEWAL_S = 1.0
LEASE_MARGIN_S = 0.2  # between our clock's view of the last renewal and the rank's
NOTIFY_WAIT_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """When: at `step` and `phase` and `point`, plus `after_s` seconds past that point.

    `step` None means at once (the injector has decided from outside that the fault is due).
    """

    step: int | None = None
    phase: str | None = None
    point: str = "entry"
    after_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One fault for one life. `fault` is the fault's name in the scenario; `kind` its catalogue name."""

    order_id: str
    fault: str
    kind: str
    verb: str
    args: Mapping[str, Any] = field(default_factory=dict)
    trigger: Trigger
    life: str

    def __post_init__(self) -> None:
        if self.verb not in VERBS:
            raise ValueError(f"unknown verb {self.verb!r}; known: {', '.join(VERBS)}")

    def to_json(self) -> dict[str, Any]:
        """Plain values, for the control channel."""
        return asdict(self)

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Order:
        """Raises KeyError, TypeError or ValueError on anything that is not an order."""
        fields = dict(raw)
        fields["trigger"] = Trigger(**fields["trigger"])
        return Order(**fields)
