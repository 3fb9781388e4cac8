"""One pass over the events: what the judge keeps, sorted by time, with the moment from which the job was ours to end.

Keeps no event of a step but `step_done`, so that memory grows with steps and not with phases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.model.events import Blind, Event

_PHASES_OF_EVERY_STEP = frozenset({"data", "forward", "backward", "optimizer"})
_DROPPED = frozenset({"step_returned", "memory_measured", "clock_offset_measured"})
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
    "digest_taken": ("step", int),
    "rank_finished": ("step", int),
    "fault_fired": ("fault", str),
    "fault_confirmed": ("fault", str),
    "fault_not_confirmed": ("fault", str),
    "fault_undone": ("fault", str),
    "source_blind": ("source", str),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDone:
    """One step finished by one rank. `samples` None = positions unseen, `loss` None = loss unseen."""

    step: int
    rank: int
    life: str
    reentry: int
    group: str | None
    t_ns: int
    loss: str | None
    samples: tuple[int, int] | None
    ref: str


class Record:
    """What happened. `start_ns` and `end_ns` bound the job; events of the job after `stop_ns` are left out."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._by_kind: dict[str, list[Event]] = {}
        self.blind: list[Blind] = []
        self._entered: set[tuple[str | None, int | None]] = set()
        self._last_ns = 0
        steps = self._take(events)
        for kept in self._by_kind.values():
            kept.sort(key=_by_time)
        self.stop_ns = self._stop()
        self.interrupted = any(event.data.get("interrupted") for event in self.of("stop_requested"))
        for kind in _OF_THE_JOB & self._by_kind.keys():
            self._by_kind[kind] = [event for event in self._by_kind[kind] if not self._too_late(event.t_ns)]
        self.steps = tuple(
            sorted((step for step in steps if not self._too_late(step.t_ns)), key=lambda step: (step.t_ns, step.ref))
        )
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

    # --- building

    def _take(self, events: Iterable[Event]) -> list[StepDone]:
        steps: list[StepDone] = []
        lines_seen: set[tuple[str, int]] = set()
        for event in events:
            if event.file and (event.file, event.line) in lines_seen:
                continue  # the same line twice is one event
            lines_seen.add((event.file, event.line))
            self._last_ns = max(self._last_ns, event.t_ns)
            if event.kind in _DROPPED or not self._is_sound(event) or self._is_routine(event):
                continue
            if event.kind == "source_blind":
                self.blind.append(_blind_of(event))
            elif event.kind == "step_done":
                steps.append(_step_of(event))
            else:
                self._by_kind.setdefault(event.kind, []).append(event)
        return steps

    def _is_sound(self, event: Event) -> bool:
        """An event that lacks what it is for makes its source blind: it must not be overlooked."""
        needed = _NEEDED.get(event.kind)
        problem = ""
        if needed is not None:
            value = event.data.get(needed[0])
            if not isinstance(value, needed[1]) or isinstance(value, bool):
                problem = f"{event.ref} is a {event.kind} without a usable {needed[0]!r}"
        if event.kind == "step_done" and (event.rank is None or event.life is None):
            problem = f"{event.ref} is a step_done of no rank"
        if problem:
            self.blind.append(Blind(source=_source(event), reason=problem, file=event.file, life=event.life))
        return not problem

    def _is_routine(self, event: Event) -> bool:
        """Phases of every step, but for the first of each entry: it ends the loading of the checkpoint."""
        if event.kind != "phase_entered" or event.data.get("phase") not in _PHASES_OF_EVERY_STEP:
            return False
        key = (event.life, event.reentry)
        if key in self._entered:
            return True
        self._entered.add(key)
        return False

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
        times += [step.t_ns for step in self.steps]
        start = started.t_ns if started else min(times, default=0)
        return start, max(start, finished.t_ns if finished else self._last_ns)


def _by_time(event: Event) -> tuple[int, str, int]:
    return event.t_ns, event.file, event.line


def _source(event: Event) -> str:
    return "controller" if event.file.startswith("controller") else "rank"


def _blind_of(event: Event) -> Blind:
    return Blind(
        source=str(event.data["source"]), reason=f"{event.data.get('reason', 'no reason given')} ({event.ref})",
        file=event.file, life=event.life, rank=event.rank,
    )  # fmt: skip


def _step_of(event: Event) -> StepDone:
    loss = event.data.get("loss")
    assert event.rank is not None and event.life is not None  # _is_sound has looked
    return StepDone(
        step=event.data["step"], rank=event.rank, life=event.life, reentry=event.reentry or 0, group=event.group,
        t_ns=event.t_ns, loss=loss if isinstance(loss, str) else None, samples=_samples(event.data.get("samples")),
        ref=event.ref,
    )  # fmt: skip


def _samples(raw: Any) -> tuple[int, int] | None:
    if not isinstance(raw, list | tuple) or len(raw) != 2:
        return None
    first, end = raw
    if not isinstance(first, int) or not isinstance(end, int) or end < first:
        return None
    return first, end
