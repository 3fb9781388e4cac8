"""What a message of NVRx means, in our vocabulary: launcher, rank monitors and in-process wrapper, 0.4.1 to 0.7.0.

A message comes without the stamp and prefix of the log that carried it; where it was read, when it was said and
how far that time can be wrong is for the caller. Standard library only: ranks import this file.
What NVRx says twice is told twice (a failed worker, then the failed group); what a healthy job says as well, and
what nobody but NVRx's own user needs ("FT timeout elapsed."), says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

TEXT_MAX = 500
RANKS_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Said:
    """An event's kind and its own fields. `speaker`: the rank that the message names as the one who says it."""

    kind: str
    fields: dict[str, Any]
    speaker: int | None = None


# 0.6 and 0.7 put a stamp of their own, in UTC, before the words of the wrapper.
_WRAPPER = (
    r"(?:\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+\] )?rank=(\d{1,9}|None)"
    r" (fn_ex|async_ex|other_ex|term_ex|abort_ex|health_ex|restart_ex|exit_ex): (.*)"
)
_KIND_OF_MARKER = {
    "restart_ex": "health_check_passed", "health_ex": "health_check_failed", "exit_ex": "rank_excluded",
}  # fmt: skip
_INTERRUPTION = re.compile(r"Interruption\.\w+ (?:on ranks=|affecting ranks )(?:\{([^}]*)\}|set\(\))")
_CYCLE = r"(?:\[Cycle \d+\] )?"
_SECONDS = r"(\d{1,9}(?:\.\d{1,9})?) seconds"


def told(text: str, logger: str = "") -> Said | None:
    """What this message says, or None when it says nothing for us. `logger`: its logger, where that is known."""
    for pattern, meaning in _RULES:
        if (found := pattern.match(text)) is not None:
            return meaning(found)
    return _by_monitor_process(text) if _is_monitor_process(logger) else None


def ranks_named(text: str) -> list[int] | None:
    """The ranks that an interruption names; None when it names none, or so many that it left some out."""
    lists = _INTERRUPTION.findall(text)
    ranks: set[int] = set()
    for part in (part for each in lists for part in each.split(", ") if part):
        first, _, last = part.partition("-")  # one of NVRx's formats shortens 1, 2, 3 to 1-3
        numbers = [number for number in (first, last or first) if number.isdecimal() and len(number) < 10]
        if len(numbers) < 2 or int(numbers[1]) - int(numbers[0]) > RANKS_MAX - len(ranks):
            return None
        ranks.update(range(int(numbers[0]), int(numbers[1]) + 1))
    return sorted(ranks) if lists else None


def _by_wrapper(found: re.Match[str]) -> Said:
    rank, marker, text = found.groups()
    fields: dict[str, Any] = {"text": text[:TEXT_MAX]}
    kind = _KIND_OF_MARKER.get(marker, "interruption_reported")
    if kind == "interruption_reported":
        # What stands after the arrow is the job's own exception: its words are not NVRx's.
        named = ranks_named(text.partition(" <- ")[0]) if marker in ("term_ex", "async_ex") else None
        fields |= {"source": "in_process", "marker": marker, "ranks": named}
    return Said(kind, fields, None if rank == "None" else int(rank))


def _worker_failed(found: re.Match[str]) -> Said:
    code, local_rank, pid = map(int, found.groups())
    return Said("worker_failed", {"local_rank": local_rank, "pid": pid, "code": code, "text": _whole(found)})


def _hang_detected(found: re.Match[str]) -> Said:
    return Said("hang_detected", {"waited_s": float(found[1]), "text": _whole(found)})


def _by_launcher(marker: str) -> Callable[[re.Match[str]], Said]:
    """The launcher decided that its group failed. The numbers in these lines count launchers: they blame no rank."""
    return lambda found: _interruption("in_job", marker, _whole(found))


def _plain(kind: str) -> Callable[[re.Match[str]], Said]:
    return lambda found: Said(kind, {"text": _whole(found)})


def _abort_began(_: re.Match[str]) -> Said:
    return Said("abort_began", {})


def _is_monitor_process(logger: str) -> bool:
    return logger == "nvrx" or logger.rpartition(".")[2] == "monitor_process"  # 0.6 and 0.7: one logger for all


def _by_monitor_process(text: str) -> Said | None:
    """The daemonised monitor of the in-process wrapper: short sentences, which others could say as well."""
    if text == "target process is terminated":
        return _interruption("in_process_monitor", "target_terminated", text)
    if text.startswith("MonitorProcess raised "):
        return _interruption("in_process_monitor", "monitor_raised", text[:TEXT_MAX])
    if text.startswith("SIGTERM psutil.Process("):  # only when the hard timeout is over
        return Said("hang_detected", {"waited_s": None, "text": text[:TEXT_MAX]})
    return None


def _interruption(source: str, marker: str, text: str) -> Said:
    return Said("interruption_reported", {"source": source, "marker": marker, "ranks": None, "text": text})


def _whole(found: re.Match[str]) -> str:
    return found.string[:TEXT_MAX]


_RULES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Said]], ...] = tuple(
    (re.compile(pattern, re.DOTALL), meaning)
    for pattern, meaning in (
        (_WRAPPER, _by_wrapper),
        (r"failed \(exitcode: (-?\d{1,9})\) local_rank: (\d{1,9}) \(pid: (\d{1,9})\) of ", _worker_failed),
        (r"\[[^\]]*\] Worker group (?:UNHEALTHY|FAILED)\. ", _by_launcher("group_failed")),
        (r"\[[^\]]*\] group_rank=\S+ .*detected that the current run failed: ", _by_launcher("group_failed")),
        (r" *- Cycle: \d+ Event: failure_detected Node: ", _by_launcher("failure_detected")),
        (_CYCLE + r"Did not get (?:initial|subsequent) heartbeat\. Waited " + _SECONDS, _hang_detected),
        (_CYCLE + r"Section '[^']*' has been open for " + _SECONDS, _hang_detected),
        (_CYCLE + r"Was out of section for " + _SECONDS, _hang_detected),
        (r"The node '[^']*' has joined (?:round \d+ of )?the rendezvous '", _plain("rendezvous_joined")),
        (r"(?:\w+ ){0,4}[Hh]ealth check failed for node ", _plain("health_check_failed")),
        (r"Unexpected error during (?:\w+ ){0,4}health check for node ", _plain("health_check_failed")),
        (r"\[In-process\] (?:Rank terminated|Hot spare activated: terminated rank) \(", _plain("rank_excluded")),
        (r"\[NestedRestarter\] name=\[InProcess\] state=handling stage=starting", _abort_began),
    )
)
