"""Until when each fault held: what was undone, and when. A fault that nothing takes back ends as it fires."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.judge.record import Record
from chaos.model.events import Event
from chaos.model.plan import Plan


class Held:
    """The firings of a run and their undos."""

    def __init__(self, record: Record, plan: Plan) -> None:
        self._holding = {
            fault.name for fault in plan.faults if fault.ends == "undone" or fault.lasts_s is not None
        }  # fmt: skip
        self._undone: dict[str, list[Event]] = {}
        for event in record.of("fault_undone"):
            self._undone.setdefault(event.data["fault"], []).append(event)

    def end_ns(self, fired: Event) -> int | None:
        """When this firing was over; None: it held, and no undo of it was seen."""
        if fired.data["fault"] not in self._holding:
            return fired.t_ns
        for event in self._undone.get(fired.data["fault"], []):
            if event.t_ns >= fired.t_ns and (event.life == fired.life or None in (event.life, fired.life)):
                return event.t_ns
        return None

    def last_ns(self, faults: Sequence[Event]) -> int:
        """When the last of them was over, as far as that was seen."""
        return max(self.end_ns(fired) or fired.t_ns for fired in faults)

    def all_over_ns(self, faults: Sequence[Event]) -> int | None:
        """When the last of them was over; None: of one no undo was seen."""
        ends = [self.end_ns(fired) for fired in faults]
        seen = [end for end in ends if end is not None]
        return max(seen) if len(seen) == len(ends) else None
