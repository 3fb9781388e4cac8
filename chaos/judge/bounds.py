"""Which setting a part of a recovery was spent on: the timeout that had to run out, the poll that had to come round.

A setting is named by the words in its name, so that any job's spelling of NVRx's intervals is understood. One that
explains too little of a part does not explain it, and nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.judge.incident import Incident

_SHARE_MIN = 0.3  # a setting that explains less than this of a part does not explain it
_EARLY = 0.02  # a timer may end a little early by another clock
_SILENCE_EARLY = 0.15  # silence counts from the last sign of life, which was before the fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Settings that have one of these words in their name (and none of `but`), and how their time passes.

    `timeout`: runs from the start of the part, and has run out within it. `silence`: runs from the last sign of life
    before the outage, so it may have begun long before the part. `poll`: at most so long, often less, but hardly ever
    a small share of it.
    """

    how: str
    words: tuple[str, ...]
    but: tuple[str, ...] = ()

    def names(self, setting: str) -> bool:
        return any(word in setting for word in self.words) and not any(word in setting for word in self.but)


_COLLECTIVE = Wait(how="silence", words=("collective_timeout", "process_group_timeout", "pg_timeout", "nccl_timeout"))
_MEETING = Wait(how="timeout", words=("collective_timeout", "process_group_timeout", "pg_timeout", "store_timeout"))
_HEARTBEAT = Wait(how="silence", words=("heartbeat_timeout", "section_timeout"), but=("in_process", "initial"))
_FIRST_HEARTBEAT = Wait(how="timeout", words=("initial_heartbeat_timeout", "initial_rank_heartbeat_timeout"))
_CHECKING = Wait(how="poll", words=("workload_check",))
_LAUNCHER_POLL = Wait(how="poll", words=("monitor_interval",))
_PROGRESS = Wait(how="silence", words=("soft_timeout", "hard_timeout"))
_SIBLING = Wait(how="silence", words=("in_process_heartbeat_timeout", "inprocess_heartbeat_timeout"))
_MONITORS = Wait(how="poll", words=("monitor_thread", "monitor_process", "progress_watchdog"))
_LAST_CALL = Wait(how="timeout", words=("last_call",))
# Of the launcher's rendezvous: `last_call_wait` is the in-process wrapper's, and no wait of the launcher.
_LAST_CALL_OF_RENDEZVOUS = Wait(how="timeout", words=("last_call",), but=("last_call_wait",))
_GRACE = Wait(how="timeout", words=("termination_grace",))
_BARRIER = Wait(how="timeout", words=("barrier_timeout",))
_STOP = Wait(how="timeout", words=("workers_stop_timeout", "stop_timeout"))
_RENDEZVOUS = Wait(how="timeout", words=("rdzv", "rendezvous", "join_timeout"))
_CHECKPOINT = Wait(how="timeout", words=("checkpoint_wait", "checkpoint_timeout", "load_timeout"))

_LAUNCHER_NOTICES = (_HEARTBEAT, _FIRST_HEARTBEAT, _CHECKING, _LAUNCHER_POLL, _COLLECTIVE)
_PROCESS_NOTICES = (_PROGRESS, _SIBLING, _MONITORS, _COLLECTIVE)
# By what it rests on; a mere bound could be either.
_NOTICED_BY: Mapping[str, Sequence[Wait]] = {
    "hang_detected": (_HEARTBEAT, _FIRST_HEARTBEAT, _CHECKING),
    "worker_failed": (_LAUNCHER_POLL, _COLLECTIVE),
    "interruption_reported": _PROCESS_NOTICES,
    "abort_began": _PROCESS_NOTICES,
    "health_check_failed": _PROCESS_NOTICES,
    "health_check_passed": (*_PROCESS_NOTICES, _LAST_CALL),
    "restart_entered": (*_PROCESS_NOTICES, _LAST_CALL, _BARRIER),
    "rank_started": _LAUNCHER_NOTICES,
}
_BOUNDS: Mapping[tuple[str, str], Sequence[Wait]] = {
    ("teardown", "in_process"): (_LAST_CALL, _PROGRESS, _SIBLING, _GRACE, _BARRIER, _MONITORS),
    ("teardown", "in_job"): (_STOP, _GRACE, _RENDEZVOUS, _LAST_CALL_OF_RENDEZVOUS, _LAUNCHER_POLL, _HEARTBEAT),
    ("teardown", "new_job"): (_STOP, _GRACE, _RENDEZVOUS, _LAST_CALL_OF_RENDEZVOUS),
    ("start", "in_process"): (_BARRIER, _LAST_CALL),
    ("start", "in_job"): (_RENDEZVOUS,),
    ("start", "new_job"): (_RENDEZVOUS,),
    ("rendezvous", "in_process"): (_BARRIER, _MEETING),
    ("rendezvous", "in_job"): (_RENDEZVOUS, _MEETING),
    ("rendezvous", "new_job"): (_RENDEZVOUS, _MEETING),
}
_BOUNDS_OF_ANY_LAYER: Mapping[str, Sequence[Wait]] = {
    "init": (_MEETING,),
    "checkpoint_load": (_CHECKPOINT, _MEETING),
    "first_step": (_MEETING,),
}


def bounded_by(name: str, start_ns: int, end_ns: int, incident: Incident, settings: Mapping[str, Any]) -> str:
    """The setting that explains most of this part; of equals a timeout before a poll, then the longest. Empty where
    none explains it."""
    whole_s = (end_ns - start_ns) / 1e9
    if whole_s <= 0:
        return ""
    found = [
        (spent_s, wait.how != "poll", value, setting)
        for wait in _waits(name, incident)
        for setting, value in _numbers(settings)
        if wait.names(setting)
        and (spent_s := _spent_s(wait, value, start_ns, end_ns, incident)) >= _SHARE_MIN * whole_s
    ]
    if not found:
        return ""
    spent_s, _, value, setting = max(found)
    return f"{spent_s:.1f} of {whole_s:.1f} s: {setting}={value:g}"


def _waits(name: str, incident: Incident) -> Sequence[Wait]:
    if name == "detection":
        return () if incident.detection is None else _NOTICED_BY.get(incident.detection.event.kind, ())
    return _BOUNDS.get((name, incident.layer or ""), _BOUNDS_OF_ANY_LAYER.get(name, ()))


def _spent_s(wait: Wait, value: float, start_ns: int, end_ns: int, incident: Incident) -> float:
    """How much of the part went by while this setting ran; 0 where it cannot have run out in it."""
    whole_s = (end_ns - start_ns) / 1e9
    if wait.how == "poll":
        return min(value, whole_s) if whole_s >= _SHARE_MIN * value else 0.0
    began_s = (start_ns - incident.begun_ns) / 1e9 if wait.how == "silence" else 0.0
    early = _SILENCE_EARLY if wait.how == "silence" else _EARLY
    if value * (1 - early) > began_s + whole_s:
        return 0.0  # not yet over when the part was
    return min(max(0.0, value - began_s), whole_s)


def _numbers(settings: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in settings.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            yield name, float(value)
