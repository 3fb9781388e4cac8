"""By which layer a process group came to be: from who was there before it.

In the same process its next entry, under the same launcher a new process, or a new launcher. What was not seen is
said to be unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from chaos.judge.record import Record
from chaos.model.events import Event

LAYERS = ("in_process", "in_job", "new_job")  # from the cheapest to the dearest
UNSEEN_LAYER = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """One process of a rank. `seat` is its initial rank: a later process in the same seat replaces the first."""

    life: str
    t_ns: int
    seat: int | None
    launcher: str | None


class Forebears:
    """The processes and launchers that were there before a group: who they are decides how it came by."""

    def __init__(self, record: Record) -> None:
        self.starts = [_start(event) for event in record.of("rank_started") if event.life is not None]
        self.of_life = {start.life: start for start in self.starts}
        self.lives: set[str] = set()
        self.launchers: set[str | None] = set()
        appeared = [event for event in record.of("process_appeared") if event.data.get("role") == "launcher"]
        self._launchers = [(event.t_ns, event.life) for event in appeared if event.life is not None]
        self._next = self._next_launcher = 0
        self._seats: set[int | None] = set()

    def begin(self, first: Collection[str]) -> None:
        """Earlier processes in the seats of the first group that stepped: the job was already restarted once."""
        own = [self.of_life[life] for life in first if life in self.of_life]
        begun = min((start.t_ns for start in own), default=0)
        seats = {start.seat for start in own}
        for start in self.starts:
            if start.t_ns < begun and start.life not in first and start.seat in seats:
                self._add(start.life)

    def pass_by(self, until_ns: int, lives: Iterable[str]) -> None:
        """A group of these lives has stepped until then. A spare that waited meanwhile is no new process when it takes
        over."""
        while self._next < len(self.starts) and self.starts[self._next].t_ns < until_ns:
            start = self.starts[self._next]
            if start.seat not in self._seats:
                self._add(start.life)
            self._seats.add(start.seat)
            self._next += 1
        while self._next_launcher < len(self._launchers) and self._launchers[self._next_launcher][0] < until_ns:
            self.launchers.add(self._launchers[self._next_launcher][1])
            self._next_launcher += 1
        for life in lives:
            self._add(life)

    def layer(self, members: Iterable[tuple[str, int]]) -> str:
        """The dearest layer by which one of the members came to be in it; empty for a group that began the job."""
        found = set()
        for life, reentry in members:
            if life in self.lives or (not self.lives and reentry > 0):
                found.add("in_process")
            elif self.lives:
                found.add(self._of_new(life))
        return UNSEEN_LAYER if UNSEEN_LAYER in found else max(found, key=LAYERS.index, default="")

    def _of_new(self, life: str) -> str:
        start = self.of_life.get(life)
        if start is None or start.launcher is None:
            return UNSEEN_LAYER
        if start.launcher in self.launchers:
            return "in_job"
        return UNSEEN_LAYER if None in self.launchers else "new_job"

    def _add(self, life: str) -> None:
        self.lives.add(life)
        start = self.of_life.get(life)
        self.launchers.add(None if start is None else start.launcher)


def _start(event: Event) -> _Start:
    assert event.life is not None  # the caller has looked
    launcher = event.data.get("launcher")
    return _Start(
        life=event.life, t_ns=event.t_ns, seat=event.rank if event.initial_rank is None else event.initial_rank,
        launcher=launcher if isinstance(launcher, str) else None,
    )  # fmt: skip
