"""Causes outside the job: what kernel and scheduler recorded when a group ended that no fault of ours had hit.

Says that a cause is on record, and where. It excuses; what that means for a check is the check's to say. A crash of
the job's own leaves none of these records.
"""

from __future__ import annotations

import signal
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from chaos.judge.detection import Signs, is_of_scheduler
from chaos.judge.lineage import Group
from chaos.judge.record import Record
from chaos.model.events import Event

# Sent by others than the process itself; a crash of its own ends a process by another one.
_FROM_OUTSIDE = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGHUP, signal.SIGQUIT})
_LOOKED_NS = 100_000_000  # exits that lie within one look at the process table have no known order
_BEFORE_NS = 250_000_000  # peers of a process that was killed can still end the step that they are in


@dataclass(frozen=True, slots=True)
class Cause:
    """What is on record, in words, and the events that say so."""

    text: str
    refs: tuple[str, ...]


class Outside:
    """The records of kernel and scheduler, and those of processes that ended."""

    def __init__(self, record: Record, signs: Signs) -> None:
        self._signs = signs
        until_ns = record.observed_until_ns
        self._exits = [event for event in record.of("process_exited") if event.t_ns <= until_ns]
        self._exit_of = {event.life: event for event in reversed(self._exits)}
        self._launchers = [event for event in self._exits if event.data.get("role") == "launcher"]
        self._scheduler = [event for event in record.of("interruption_reported") if is_of_scheduler(event)]
        self._samples = _of_each_file(
            [event for event in record.of("memory_measured") if _is_count(event.data.get("oom_kills"))]
        )

    def ended(self, group: Group, until_ns: int) -> Cause | None:
        """Why that group had ended by then, if it was nothing of the job's."""
        start_ns = group.last_whole_ns - _BEFORE_NS
        return (
            self._told_by_scheduler(group.first_ns, until_ns)
            or self.out_of_memory(start_ns, until_ns)
            or self._signalled(group, until_ns)
        )

    def out_of_memory(self, start_ns: int, until_ns: int, *, spared: Collection[str | None] = ()) -> Cause | None:
        """The kernel's count grew, and a process of the job may be among those it killed. `spared`: lives whose end we
        know the cause of."""
        ended = self._exits[_low(self._exits, start_ns) : _high(self._exits, until_ns)]
        killed = [event for event in ended if event.life not in spared and _may_be_killed(event)]
        for samples in self._samples:
            grown = _growth(samples, start_ns, until_ns)
            if grown is not None and killed:
                before, after = grown
                counts = f"{before.data['oom_kills']} to {after.data['oom_kills']}"
                text = f"the kernel killed for want of memory (oom_kills {counts}, {_who(killed[0])} ended)"
                return Cause(text, (before.ref, after.ref, killed[0].ref))
        return None

    def _told_by_scheduler(self, start_ns: int, until_ns: int) -> Cause | None:
        for event in self._scheduler[_low(self._scheduler, start_ns) : _high(self._scheduler, until_ns)]:
            words = event.data.get("text") or event.data.get("marker") or "no reason given"
            return Cause(f"the scheduler interrupted the job: {str(words)[:120]}", (event.ref,))
        return None

    def _signalled(self, group: Group, until_ns: int) -> Cause | None:
        """The first process that ended did so by a signal, and nobody whom we know had sent one."""
        lives = [self._exit_of[life] for life in group.lives() if life in self._exit_of]
        launchers = [event for event in self._launchers if event.t_ns >= group.first_ns]
        ended = sorted(
            (event for event in (*lives, *launchers) if event.t_ns <= until_ns),
            key=lambda event: (event.t_ns, event.file, event.line),
        )
        together = [event for event in ended if event.t_ns <= ended[0].t_ns + _LOOKED_NS]
        if not ended or not all(_is_from_outside(event) for event in together):
            return None
        first = ended[0]
        for sign in self._signs.between(group.last_whole_ns - _BEFORE_NS, until_ns):
            if _says_killed(sign) or (sign.t_ns <= first.t_ns and _sends_signals(sign, together)):
                return None
        name = signal.Signals(first.data["signal"]).name
        return Cause(f"{_who(first)} ended by {name}, which neither we nor NVRx sent", (first.ref,))


def _sends_signals(sign: Event, ended: Sequence[Event]) -> bool:
    """Whether NVRx, having said this, ends processes: not where it only notes that one of these is gone."""
    if sign.kind == "worker_failed":
        # without a process number it says that the group as a whole has failed, which follows from one that did
        return sign.data.get("pid") not in [None, *(event.data.get("pid") for event in ended)]
    if sign.kind == "interruption_reported":
        noted = sign.data.get("marker") == "target_terminated" or "TERMINATED" in str(sign.data.get("text"))
        return not noted
    return sign.kind == "hang_detected"


def _says_killed(sign: Event) -> bool:
    """In-process restart ends a rank without progress first, and tells of it in the others afterwards."""
    return sign.kind == "interruption_reported" and "HARD_TIMEOUT" in str(sign.data.get("text"))


def _is_from_outside(event: Event) -> bool:
    ended_by = event.data.get("signal")
    return isinstance(ended_by, int) and ended_by in _FROM_OUTSIDE


def _may_be_killed(event: Event) -> bool:
    """By SIGKILL, or nobody saw how."""
    ended_by, code = event.data.get("signal"), event.data.get("code")
    return ended_by == signal.SIGKILL or (ended_by is None and code is None)


def _who(event: Event) -> str:
    return f"rank {event.rank}" if event.rank is not None else f"a {event.data.get('role') or 'process'}"


def _growth(samples: Sequence[Event], start_ns: int, until_ns: int) -> tuple[Event, Event] | None:
    """The last sample before the stretch and the first one that shows more kills, where it shows them in time."""
    before = _high(samples, start_ns) - 1
    if before < 0:
        return None
    for after in samples[before + 1 :]:
        if after.data["oom_kills"] > samples[before].data["oom_kills"]:
            return samples[before], after
        if after.t_ns > until_ns:
            break
    return None


def _of_each_file(events: Sequence[Event]) -> list[list[Event]]:
    """The samples of each host: a count of one is not to be compared with another's."""
    files: dict[str, list[Event]] = {}
    for event in events:
        files.setdefault(event.file, []).append(event)
    return [files[name] for name in sorted(files)]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _low(events: Sequence[Event], t_ns: int) -> int:
    return bisect_left(events, t_ns, key=lambda event: event.t_ns)


def _high(events: Sequence[Event], t_ns: int) -> int:
    return bisect_right(events, t_ns, key=lambda event: event.t_ns)
