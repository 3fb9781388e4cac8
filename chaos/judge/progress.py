"""How far a running job is, event by event: when it is steady, when it has recovered, when it is done.

For the live session only: a verdict is judged from the finished history. The work for an event grows with the number of
ranks and never with the length of the run.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from statistics import median

from chaos.model.events import Event

STEP_TIMES_KEPT = 512


class _Group:
    """One process group as it steps."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.lives: dict[int, str] = {}
        self.highest: dict[int, int] = {}  # rank -> its highest step
        self.first_ns: dict[int, int] = {}
        self.by_all = -1  # the highest step that all ranks have done
        self.run = 0  # consecutive steps done by all, up to by_all
        self.times_s: deque[float] = deque(maxlen=STEP_TIMES_KEPT)
        self._by_all_ns: int | None = None

    def did(self, rank: int, step: int, t_ns: int, expected: int) -> None:
        self.highest[rank] = max(step, self.highest.get(rank, step))
        self.first_ns.setdefault(rank, t_ns)
        if len(self.highest) < expected:
            return
        by_all = min(self.highest.values())
        if by_all <= self.by_all and self.run:
            return
        gained = by_all - self.by_all if self.run else 1
        if self._by_all_ns is not None and gained > 0:
            self.times_s.append((t_ns - self._by_all_ns) / 1e9 / gained)
        self.run += gained
        self.by_all, self._by_all_ns = by_all, t_ns


@dataclass(frozen=True, slots=True)
class Watch:
    """Where the job was when a fault fired: the number of its group, and the highest step that any rank had done."""

    group_number: int
    highest_step: int


class Live:
    """`world_size`: the ranks expected in a group; with `may_shrink`, as many as the group itself says it has."""

    def __init__(self, *, world_size: int, steady_steps: int, steps: int, may_shrink: bool = False) -> None:
        self.steady_steps = steady_steps
        self.steps = steps
        self.steps_done: dict[int, int] = {}  # rank -> its highest step, -1 before the first
        self.finished: set[int] = set()
        self.restarts_seen = 0
        self.highest_step = -1
        self._expected = world_size
        self._may_shrink = may_shrink
        self._sizes: dict[str, int] = {}
        self._groups: dict[str, _Group] = {}
        self._members: dict[str, dict[int, str]] = {}
        self._current: _Group | None = None

    # --- fed by the session

    def feed(self, event: Event) -> None:
        """One event, as it comes."""
        if event.kind == "step_done":
            self._step(event)
        elif event.kind == "process_group_ready":
            self._ready(event)
        elif event.kind == "rank_finished" and event.rank is not None:
            self.finished.add(event.rank)

    # --- asked by the session

    @property
    def group(self) -> str | None:
        """The group that stepped last; None before the first step."""
        return None if self._current is None else self._current.name

    @property
    def lives(self) -> dict[int, str]:
        """rank -> life in the current group."""
        return {} if self._current is None else dict(self._current.lives)

    @property
    def step_by_all(self) -> int:
        """The highest step that every rank of the current group has done; -1 = none yet."""
        return -1 if self._current is None else self._current.by_all

    def step_time_s(self, n: int = 50) -> float | None:
        """The median over the last n steps of the current group."""
        times = [] if self._current is None else list(self._current.times_s)[-n:]
        return median(times) if times else None

    def steady(self, n: int | None = None) -> bool:
        """Whether n consecutive steps were done by every rank in the current group."""
        needed = self.steady_steps if n is None else n
        return self._current is not None and self._current.run >= needed

    def done(self) -> bool:
        """Whether every expected rank has said that it finished."""
        return len(self.finished) >= self._size_of(self._current)

    def watch(self) -> Watch:
        """Call when a fault has fired; the answer is for `recovered`, `recovered_at_ns` and `went_on`."""
        return Watch(-1 if self._current is None else self._current.number, self.highest_step)

    def recovered_at_ns(self, watch: Watch) -> int | None:
        """When the last expected rank had done its first step in a later group; None = not yet."""
        group = self._current
        if group is None or group.number <= watch.group_number or len(group.first_ns) < self._size_of(group):
            return None
        return max(group.first_ns.values())

    def recovered(self, watch: Watch) -> bool:
        """Whether that fault is over: a later group is `steady_steps` beyond the highest step there was."""
        if self.recovered_at_ns(watch) is None or self._current is None:
            return False
        # Steps of the old group that came after the fault are ghosts, and have to be passed all the same.
        old = [max(group.highest.values()) for group in self._groups.values() if group.number < self._current.number]
        return self._current.by_all >= max([*old, watch.highest_step]) + self.steady_steps

    def went_on(self, watch: Watch) -> bool:
        """Whether the same group trained on, steadily: nothing had to restart (yet)."""
        group = self._current
        same = group is not None and group.number == watch.group_number
        return same and group is not None and group.by_all >= watch.highest_step + self.steady_steps

    # --- inside

    def _size_of(self, group: _Group | None) -> int:
        if self._may_shrink and group is not None:
            return self._sizes.get(group.name, self._expected)
        return self._expected

    def _ready(self, event: Event) -> None:
        if event.group is None or event.rank is None or event.life is None:
            return
        self._members.setdefault(event.group, {})[event.rank] = event.life
        size = event.data.get("world_size")
        if isinstance(size, int):
            self._sizes[event.group] = size

    def _step(self, event: Event) -> None:
        step, rank, name = event.data.get("step"), event.rank, event.group
        if not isinstance(step, int) or rank is None or name is None:
            return
        self.steps_done[rank] = max(step, self.steps_done.get(rank, -1))
        group = self._groups.get(name)
        if group is None:
            group = self._begin(name)
        if event.life is not None:
            group.lives[rank] = event.life
        group.did(rank, step, event.t_ns, self._size_of(group))
        self.highest_step = max(self.highest_step, step)

    def _begin(self, name: str) -> _Group:
        group = _Group(name, len(self._groups))
        group.lives.update(self._members.get(name, {}))
        self._groups[name] = group
        if self._current is not None:
            self.restarts_seen += 1
        self._current = group
        return group
