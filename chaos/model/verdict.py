"""The verdict of one run, as `verdict.json` holds it (schema nvrx-chaos/verdict/1)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

import msgspec

SCHEMA = "nvrx-chaos/verdict/1"


class Outcome(IntEnum):
    """In order of badness. Exit statuses live in `cli/exit_status.py`."""

    PASS = 0
    UNKNOWN = 1
    FAIL = 2


WORD = {Outcome.PASS: "pass", Outcome.UNKNOWN: "unknown", Outcome.FAIL: "fail"}
WORD_OF_RUN = {Outcome.PASS: "passed", Outcome.UNKNOWN: "unknown", Outcome.FAIL: "failed"}


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The worst wins. Judging nothing proves nothing, so no outcomes at all is UNKNOWN."""
    return max(outcomes, default=Outcome.UNKNOWN)


EXPECTED, KNOWN = "expected", "known"  # why a failure was foreseen


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check. `outcome`: pass | fail | unknown | not_asked. `evidence`: `FILE:LINE` of events or logs."""

    name: str
    outcome: str
    expected: str = ""
    observed: str = ""
    evidence: tuple[str, ...] = ()


class PartTime(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a recovery. `bounded_by` names the setting that the time was spent on, if one explains it."""

    name: str
    time_s: float
    bounded_by: str = ""


class IncidentVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One outage with all that followed. Times in seconds; None = never, or not seen."""

    faults: tuple[str, ...]
    recovered_by: str | None = None
    detection_time_s: float | None = None
    detection_is_bound: bool = False
    detection_source: str = ""
    detection_error_s: float = 0.0
    recovery_time_s: float | None = None
    catch_up_time_s: float | None = None
    full_recovery_time_s: float | None = None
    parts: tuple[PartTime, ...] = ()
    lost_steps: int | None = None
    restarts: dict[str, int] = {}
    cause: str = ""


class FaultVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one planned fault: `fired`, `confirmed`, `undone` are words, empty when it did not happen."""

    name: str
    fault: str
    params: dict[str, Any]
    target: str
    fidelity: str
    layer: str
    certifies: str
    does_not_certify: str
    fired: str = ""
    confirmed: str = ""
    undone: str = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """`outcome`: passed | failed | unknown | not_run. `sentence` says it in words, with what was not asked.

    `foreseen`: failed checks that the scenario foresees → expected | known. `known`: failed by a defect of others that
    the scenario knows, and by nothing else.
    """

    schema: str = SCHEMA
    scenario: str
    run_id: str
    seed: int
    outcome: str
    known: bool = False
    interrupted: bool = False
    sentence: str
    remedy: str = ""
    fidelity: str = "real"
    faults: tuple[FaultVerdict, ...] = ()
    incidents: tuple[IncidentVerdict, ...] = ()
    checks: tuple[Check, ...] = ()
    foreseen: dict[str, str] = {}
    goodput: float | None = None
    ettr: float | None = None
    controls: tuple[str, ...] = ()
    settings_seen: dict[str, Any] = {}
    versions: dict[str, str] = {}
    repeat: str = ""

    def check(self, name: str) -> Check | None:
        """The check of that name, if the verdict has one."""
        return next((check for check in self.checks if check.name == name), None)
