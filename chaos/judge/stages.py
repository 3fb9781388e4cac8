"""When each process, in each of its entries, reached the stages of a recovery. Built once for a run."""

from __future__ import annotations

from chaos.judge.lineage import Group
from chaos.judge.record import Record
from chaos.model.events import Event

_MARKED_PHASES = frozenset({"rendezvous", "checkpoint_load"})
LOADED = "checkpoint_loaded"
ENTERED = "entered"


class Stages:
    """The last time at which each entry of each life reached a stage."""

    def __init__(self, record: Record) -> None:
        self._of_entry: dict[tuple[str, int, str], int] = {}
        self._appeared: dict[str, int] = {}
        for event in record.of("restart_entered", "rank_started", "phase_entered", LOADED):
            stage = _stage(event)
            if stage is not None and event.life is not None:
                key = (event.life, event.reentry or 0, stage)
                self._of_entry[key] = max(event.t_ns, self._of_entry.get(key, event.t_ns))
        for event in record.of("process_appeared"):
            if event.life is not None:
                self._appeared.setdefault(event.life, event.t_ns)

    def last(self, group: Group, stage: str) -> int | None:
        """When the last member of the group reached it; None: none was seen to."""
        found = (self._of_entry.get((life, reentry, stage)) for life, reentry in group.members.values())
        return max((t_ns for t_ns in found if t_ns is not None), default=None)

    def appeared(self, group: Group, before: Group | None) -> int | None:
        """When the last new process of the group was there; None where the same processes went on."""
        new = group.lives() - (before.lives() if before else set())
        return max((self._appeared[life] for life in new if life in self._appeared), default=None)


def _stage(event: Event) -> str | None:
    if event.kind == "phase_entered":
        phase = event.data.get("phase")
        return phase if isinstance(phase, str) and phase in _MARKED_PHASES else None
    if event.kind == LOADED:
        return LOADED
    # A life's first entry is its start; each later one says restart_entered.
    return ENTERED if event.kind == "restart_entered" or not event.reentry else None
