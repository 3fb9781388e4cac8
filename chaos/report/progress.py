"""What a running run looks like, folded from its events: ranks, faults, the recovery clock. No output, no clock.

A picture for people who wait. It judges nothing: what counts is the verdict. Events may come late and out of
order between files, so times are taken from the events, never from their arrival.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from chaos.model.events import Event
from chaos.model.plan import FaultPlan, Plan
from chaos.report import words
from chaos.report.clean import one_line

STEP_TIME_WINDOW = 10  # steps whose median is shown
RECENT_STEPS = 256  # whose times are kept, so that a fault told late still finds the steps after it
STEPS_TO_GO_ON_MIN = 3  # fewer in the old group can be ghost steps
DETECTIONS = {
    "worker_failed": "the launcher saw a worker fail",
    "hang_detected": "the rank monitor saw a hang",
    "interruption_reported": "an interruption was reported",
    "health_check_failed": "a health check failed",
    "restart_entered": "a restart began",
}


@dataclass(slots=True)
class RankProgress:
    """One rank. `entry` is its present life, reentry and group; a new one means it came back."""

    rank: int
    state: str = "starting"
    step: int | None = None
    loss: float | None = None
    life: str | None = None
    entry: tuple[str | None, int | None, str | None] | None = None
    entry_first_step_ns: int = 0
    last_step_ns: int = 0
    step_times_s: deque[float] = field(default_factory=lambda: deque(maxlen=STEP_TIME_WINDOW))
    recent_ns: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT_STEPS))

    @property
    def step_time_s(self) -> float | None:
        return median(self.step_times_s) if self.step_times_s else None


@dataclass(slots=True)
class FaultProgress:
    """One planned fault: planned, armed, fired, confirmed, undone; or not fired, not confirmed, not undone."""

    plan: FaultPlan
    state: str = "planned"


@dataclass(slots=True)
class RecoveryClock:
    """Runs from the (last) fault of an incident until every rank has stepped again."""

    first_fired_ns: int
    last_fired_ns: int
    since_ns: int | None
    detected_ns: int | None = None
    recovered_ns: int | None = None

    @property
    def detection_s(self) -> float | None:
        return None if self.detected_ns is None else (self.detected_ns - self.first_fired_ns) / 1e9

    def recovery_s(self, now_ns: int) -> float | None:
        """So far, or for good once recovered; None while it has not begun (clock from the undo)."""
        end_ns = self.recovered_ns if self.recovered_ns is not None else now_ns
        return None if self.since_ns is None else max(0.0, (end_ns - self.since_ns) / 1e9)


class RunProgress:
    """The state of one run. `see` takes each event and gives the lines that a log should get, mostly none."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.ranks = {rank: RankProgress(rank) for rank in range(plan.job.world_size)}
        self.faults = {fault.name: FaultProgress(fault) for fault in plan.faults}
        self.clock: RecoveryClock | None = None
        self.steady = False
        self.world_size = plan.job.world_size
        self._ranks_of_lives: dict[str, int] = {}
        self._handlers: dict[str, Callable[[Event], list[str]]] = {
            "rank_started": self._rank_started,
            "process_group_ready": self._group_ready,
            "step_done": self._step_done,
            "restart_entered": self._restart_entered,
            "rank_finished": self._rank_finished,
            "process_exited": self._process_exited,
            "steady_state_met": self._steady,
            "fault_fired": self._fault_fired,
            "fault_undone": self._fault_undone,
        }

    def see(self, event: Event) -> list[str]:
        """Takes one event; unknown kinds and odd values change nothing and never raise."""
        lines: list[str] = []
        if event.kind.startswith("fault_") or event.kind == "undo_failed":
            lines += self._fault(event)
        if event.kind in self._handlers:
            lines += self._handlers[event.kind](event)
        if event.kind in DETECTIONS:
            lines += self._detected(event)
        if event.kind == "stop_requested":
            lines.append(f"stopping: {_text(event, 'reason')}")
        return lines

    def _rank(self, event: Event) -> RankProgress | None:
        rank = event.initial_rank if event.initial_rank is not None else event.rank
        return None if rank is None else self.ranks.setdefault(rank, RankProgress(rank))

    def _rank_started(self, event: Event) -> list[str]:
        rank = self._rank(event)
        if rank is not None:
            rank.state = "starting" if rank.life in (None, event.life) else "restarting"
            rank.life = event.life
            if event.life is not None:
                self._ranks_of_lives[event.life] = rank.rank
        return []

    def _group_ready(self, event: Event) -> list[str]:
        size = _number(event.data.get("world_size"))
        # only a job that may shrink is allowed to be smaller: else a missing rank would look like a recovery
        if self.plan.job.shrink and size:
            self.world_size = int(size)
        return []

    def _step_done(self, event: Event) -> list[str]:
        rank = self._rank(event)
        step = _number(event.data.get("step"))
        if rank is None or step is None:
            return []
        entry = (event.life, event.reentry, event.group)
        if rank.entry == entry:
            done = max(1, int(step) - rank.step) if rank.step is not None else 1  # not every step is followed
            rank.step_times_s.append((event.t_ns - rank.last_step_ns) / 1e9 / done)
            rank.recent_ns.append(event.t_ns)
        else:
            rank.entry, rank.entry_first_step_ns = entry, event.t_ns
            rank.step_times_s.clear()
            rank.recent_ns.clear()
        if event.life in (None, rank.life) or rank.life is None:
            rank.state = "training"
        rank.step, rank.loss, rank.last_step_ns = int(step), _number(event.data.get("loss")), event.t_ns
        return self._look_for_recovery()

    def _restart_entered(self, event: Event) -> list[str]:
        rank = self._rank(event)
        if rank is not None:
            rank.state = "restarting"
        return []

    def _rank_finished(self, event: Event) -> list[str]:
        rank = self._rank(event)
        if rank is not None:
            rank.state = "finished"
        return []

    def _process_exited(self, event: Event) -> list[str]:
        number = self._ranks_of_lives.get(event.life or "")
        rank = None if number is None else self.ranks[number]
        if rank is not None and rank.life == event.life and rank.state != "finished":
            rank.state = "stopped"
        return []

    def _steady(self, event: Event) -> list[str]:
        if self.steady:
            return []
        self.steady = True
        step_time_s = _number(event.data.get("step_time_s"))
        pace = "" if step_time_s is None else f", {step_time_s * 1e3:.1f} ms a step"
        return [f"steady at step {_text(event, 'step')}{pace}"]

    def _fault(self, event: Event) -> list[str]:
        fault = self.faults.get(str(event.data.get("fault")))
        state = event.kind.removeprefix("fault_").replace("_", " ") if event.kind != "undo_failed" else "not undone"
        if fault is not None:
            fault.state = state
        if event.kind in ("fault_not_fired", "fault_not_confirmed", "undo_failed"):
            return [f"fault {_text(event, 'fault')} {state}: {_text(event, 'reason')}"]
        return []

    def _fault_fired(self, event: Event) -> list[str]:
        since_ns = None if self.plan.objective.clock_from == "undone" else event.t_ns
        if self.clock is None or self.clock.recovered_ns is not None:
            self.clock = RecoveryClock(event.t_ns, event.t_ns, since_ns)
        else:  # fired before the earlier one's recovery: one incident, its clock starts at the last fault
            self.clock.last_fired_ns, self.clock.since_ns = event.t_ns, since_ns
        where = [f"rank {rank}" for rank in (event.initial_rank, event.rank) if rank is not None][:1]
        where += [f"{name} {_text(event, name)}" for name in ("step", "phase") if event.data.get(name) is not None]
        return [
            f"fault {_text(event, 'fault')} fired: {', '.join(where) or 'from outside'}",
            *self._look_for_recovery(),
        ]

    def _fault_undone(self, event: Event) -> list[str]:
        if self.clock is not None and self.plan.objective.clock_from == "undone":
            self.clock.since_ns = event.t_ns
        return self._look_for_recovery()

    def _detected(self, event: Event) -> list[str]:
        clock = self.clock
        if clock is None or clock.detected_ns is not None or event.t_ns < clock.first_fired_ns:
            return []
        clock.detected_ns = event.t_ns
        return [f"detected after {words.seconds(clock.detection_s)}: {DETECTIONS[event.kind]}"]

    def _look_for_recovery(self) -> list[str]:
        clock = self.clock
        if clock is None or clock.since_ns is None or clock.recovered_ns is not None:
            return []
        back = {rank.rank: t_ns for rank in self.ranks.values() if (t_ns := self._back_ns(rank, clock)) is not None}
        groups = {entry[2] for number in back if (entry := self.ranks[number].entry) is not None}
        if len(back) < self.world_size or len(groups) > 1:
            return []
        clock.recovered_ns = max(back.values())
        return [f"all ranks step again {clock.recovery_s(clock.recovered_ns):.2f} s after the {self._clock_start()}"]

    def _back_ns(self, rank: RankProgress, clock: RecoveryClock) -> int | None:
        """Since when this rank steps again: in a later life, reentry or group at once; in the old one only after
        several steps, because a rank that is woken to be killed can still finish the one it was in."""
        if rank.entry_first_step_ns > clock.last_fired_ns:
            return rank.entry_first_step_ns
        after = [t_ns for t_ns in rank.recent_ns if t_ns > (clock.since_ns or 0)]
        enough = min(max(self.plan.steady_steps, STEPS_TO_GO_ON_MIN), RECENT_STEPS // 2)
        return after[0] if len(after) >= enough else None

    def _clock_start(self) -> str:
        return "undo" if self.plan.objective.clock_from == "undone" else "fault"


def _number(value: Any) -> float | None:
    """A number, also as the hex text that events carry losses in; None for anything else and for NaN."""
    try:
        number = float.fromhex(value) if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _text(event: Event, name: str) -> str:
    return one_line(str(event.data.get(name, "?")), 200)
