"""Plans that foresee failures, and runs that have them."""

from __future__ import annotations

from datetime import date
from typing import Any

from judge_build import plan
from msgspec.structs import replace

from chaos.model.plan import KnownPlan, Plan
from chaos.model.verdict import Verdict

DAY = date(2023, 11, 14)  # on which the stories play
REF = "https://example.org/issues/7"
LOST = {"lost_steps": 3}  # `killed` does 7 steps again
SLOW = {"recovery_time_s": 1.0}  # and recovers after 1.96 s


def expecting(*names: str, of: Plan | None = None, **objective: Any) -> Plan:
    return replace(of or plan(**objective), expect_failed=names)


def knowing(*names: str, of: Plan | None = None, since: str = ">=2.13", until: date = DAY, **objective: Any) -> Plan:
    entry = KnownPlan(checks=names, since={"torch": since}, ref=REF, until=until)
    return replace(of or plan(**objective), known=entry)


def told(verdict: Verdict) -> tuple[str, bool]:
    return verdict.outcome, verdict.known


FAILED, KNOWN, UNKNOWN, PASSED = ("failed", False), ("failed", True), ("unknown", False), ("passed", False)
