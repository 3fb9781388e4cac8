"""One pass over the events: what the judge keeps, sorted by time, with the moment from which the job was ours to end.

Keeps no event of a step but `step_done`, so that memory grows with steps and not with phases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chaos.judge.farewell import without_farewells
from chaos.judge.steps import Growing, Steps
from chaos.model.events import Blind, Event, is_routine

# What the job did. After we asked it to stop, whatever it says is our doing and proves nothing about it.
_OF_THE_JOB = frozenset(
    {
        "rank_started", "process_group_ready", "phase_entered", "step_done", "checkpoint_began", "checkpoint_staged",
        "checkpoint_committed", "checkpoint_loaded", "checkpoint_refused", "checkpoint_pruned", "digest_taken",
        "restart_entered", "rank_finished", "interruption_reported", "health_check_passed", "health_check_failed",
        "abort_began", "abort_done", "rank_excluded", "worker_failed", "hang_detected", "rendezvous_joined",
    }
)  # fmt: skip
# kind -> the field without which an event of it says nothing, and that field's type
_NEEDED: Mapping[str, tuple[str, type]] = {
    "step_done": ("step", int),
    "checkpoint_staged": ("step", int),
    "checkpoint_committed": ("step", int),
    "checkpoint_loaded": ("step", int),
    "checkpoint_refused": ("step", int),
    "checkpoint_pruned": ("step", int),
    "checkpoint_seen": ("step", int),
    "digest_taken": ("step", int),
    "rank_finished": ("step", int),
    "fault_fired": ("fault", str),
    "fault_confirmed": ("fault", str),
    "fault_not_confirmed": ("fault", str),
    "fault_undone": ("fault", str),
    "source_blind": ("source", str),
}
# What a number of an event can be: the columns of steps hold 64 bits.
NUMBER_MAX = 1 << 62


class Record:
    """What happened. `start_ns` and `end_ns` bound the job; events of the job after `stop_ns` are left out."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._by_kind: dict[str, list[Event]] = {}
        self.blind: list[Blind] = []
        self._last_ns = 0
        growing = self._take(events)
        for kept in self._by_kind.values():
            kept.sort(key=_by_time)
        self.stop_ns = self._stop()
        self.interrupted = any(event.data.get("interrupted") for event in self.of("stop_requested"))
        for kind in _OF_THE_JOB & self._by_kind.keys():
            self._by_kind[kind] = [event for event in self._by_kind[kind] if not self._too_late(event.t_ns)]
        said, turns = self.of("interruption_reported"), self.of("rank_started", "restart_entered", "rank_finished")
        self._by_kind["interruption_reported"] = without_farewells(said, turns)
        # by the name of their group, None = a group without a name
        self.steps: dict[str | None, Steps] = {}
        for name in sorted(growing, key=lambda name: name or ""):
            steps = Steps(growing.pop(name), until_ns=self.stop_ns)
            if len(steps):
                self.steps[name] = steps
        self.start_ns, self.end_ns = self._bounds()

    def of(self, *kinds: str) -> list[Event]:
        """Events of these kinds in order of time."""
        if len(kinds) == 1:
            return self._by_kind.get(kinds[0], [])
        return sorted((event for kind in kinds for event in self._by_kind.get(kind, [])), key=_by_time)

    def first(self, kind: str) -> Event | None:
        """The first event of that kind."""
        return next(iter(self.of(kind)), None)

    def last(self, kind: str) -> Event | None:
        """The last event of that kind."""
        found = self.of(kind)
        return found[-1] if found else None

    @property
    def observed_until_ns(self) -> int:
        """Until when the job could show what it does: its end, or our asking it to stop."""
        return self.end_ns if self.stop_ns is None else min(self.stop_ns, self.end_ns)

    @property
    def last_step_ns(self) -> int | None:
        """When the last step was done; None: no step was."""
        return max((steps.last_ns for steps in self.steps.values()), default=None)

    # --- building

    def _take(self, events: Iterable[Event]) -> dict[str | None, Growing]:
        growing: dict[str | None, Growing] = {}
        for event in events:
            self._last_ns = max(self._last_ns, event.t_ns)
            if is_routine(event.kind, event.data.get("phase")) or not self._is_sound(event):
                continue
            if event.kind == "source_blind":
                self.blind.append(_blind_of(event))
            elif event.kind == "step_done":
                steps = growing.get(event.group)
                if steps is None:
                    steps = growing[event.group] = Growing()
                steps.add(event)
            else:
                self._by_kind.setdefault(event.kind, []).append(event)
        return growing

    def _is_sound(self, event: Event) -> bool:
        """An event that lacks what it is for makes its source blind: it must not be overlooked."""
        needed = _NEEDED.get(event.kind)
        problem = ""
        if needed is not None and not _is_a(needed[1], event.data.get(needed[0])):
            problem = f"{event.ref} is a {event.kind} without a usable {needed[0]!r}"
        if event.kind == "step_done" and not (_is_a(int, event.rank) and event.life and 0 <= event.t_ns < NUMBER_MAX):
            problem = f"{event.ref} is a step_done of no rank"
        if problem:
            self.blind.append(
                Blind(source=_source(event), reason=problem, file=event.file, life=event.life, line=event.line)
            )
        return not problem

    def _stop(self) -> int | None:
        """When we asked the job to stop, if it had not ended by then."""
        asked, finished = self.first("stop_requested"), self.first("job_finished")
        if asked is None or (finished is not None and finished.t_ns <= asked.t_ns):
            return None
        return asked.t_ns

    def _too_late(self, t_ns: int) -> bool:
        return self.stop_ns is not None and t_ns > self.stop_ns

    def _bounds(self) -> tuple[int, int]:
        started, finished = self.first("job_started"), self.last("job_finished")
        times = [event.t_ns for kept in self._by_kind.values() for event in kept]
        times += [steps.first_ns for steps in self.steps.values()]
        start = started.t_ns if started else min(times, default=0)
        return start, max(start, finished.t_ns if finished else self._last_ns)


def _is_a(kind: type, value: Any) -> bool:
    """Numbers of events count something: steps, ranks."""
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < NUMBER_MAX
    return isinstance(value, kind)


def _by_time(event: Event) -> tuple[int, str, int]:
    return event.t_ns, event.file, event.line


def _source(event: Event) -> str:
    return "controller" if event.file.startswith("controller") else "rank"


def _blind_of(event: Event) -> Blind:
    return Blind(
        source=str(event.data["source"]), reason=f"{event.data.get('reason', 'no reason given')} ({event.ref})",
        file=event.file, life=event.life, rank=event.rank, line=event.line,
    )  # fmt: skip
