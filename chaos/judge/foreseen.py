"""What the outcomes of all checks come to, where a scenario foresees failures: `expect_failed`, and `known`.

A check that failed stays failed; beside it stands that it was foreseen. Nothing that a scenario says makes a passed or
known run out of one whose evidence is lost or that was cut short (`lost`), nor out of one where anything else failed
or is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaos.judge import known as entries
from chaos.judge.checks.framework import Finding, failed, passed, unknown
from chaos.judge.known import Entry, Hold
from chaos.judge.record import Record
from chaos.model.plan import Plan
from chaos.model.verdict import EXPECTED, KNOWN, Check, Outcome, worst

_OUTCOME_OF_CHECK = {"pass": Outcome.PASS, "unknown": Outcome.UNKNOWN, "fail": Outcome.FAIL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What a run comes to. `foreseen`: failed check → EXPECTED or KNOWN. `decisive`: the checks that made the outcome.
    `because` and `notes`: words about what was foreseen; what of it made the outcome, and what stands beside it."""

    outcome: Outcome
    known: bool
    foreseen: dict[str, str]
    decisive: tuple[Check, ...]
    because: tuple[str, ...]
    notes: tuple[str, ...]


def rule(plan: Plan, checks: Sequence[Check], record: Record, *, lost: str) -> Ruling:
    """`lost`: why the run cannot be passed whatever its checks say, in words; empty: nothing was lost."""
    entry = entries.read(plan.known, record) if plan.known is not None else None
    foreseen = _foreseen(plan, checks, entry)
    defect = tuple(check for check in checks if foreseen.get(check.name) == KNOWN)
    # The named checks need not all fail, once one of them does: what the others came to is part of the defect.
    excused = entry.known.checks if entry is not None and defect else ()
    others = [check for check in checks if check.name not in excused]
    findings = [*_expected(plan, checks, lost), *_gone(entry, checks, lost)]
    rest = _worst_of(plan, others, findings, lost)
    because = [finding.observed for finding in findings if finding.outcome is rest and rest is not Outcome.PASS]
    notes = [finding.observed for finding in findings if finding.outcome is Outcome.PASS]
    decisive = _of_outcome(others, rest, foreseen)
    if entry is not None and defect and rest is not Outcome.FAIL:
        decisive, because = defect, [_about_defect(entry, rest, others, because or [lost])]
    elif entry is not None:
        notes += _beside(entry, checks, defect)
    return Ruling(
        outcome=Outcome.FAIL if defect else rest, known=bool(defect) and rest is Outcome.PASS, foreseen=foreseen,
        decisive=decisive, because=tuple(because), notes=tuple(notes),
    )  # fmt: skip


def _foreseen(plan: Plan, checks: Sequence[Check], entry: Entry | None) -> dict[str, str]:
    known = entry.known.checks if entry is not None and entry.hold is Hold.IN_FORCE else ()
    failing = [check.name for check in checks if check.outcome == "fail"]
    marks = {name: KNOWN for name in failing if name in known}
    return marks | {name: EXPECTED for name in failing if name in plan.expect_failed}


def _worst_of(plan: Plan, others: Sequence[Check], findings: Sequence[Finding], lost: str) -> Outcome:
    """What the run would be without its known defect. Expected failures count as the findings about them say."""
    asked = [check for check in others if check.outcome != "not_asked" and check.name not in plan.expect_failed]
    outcomes = [_OUTCOME_OF_CHECK[check.outcome] for check in asked]
    outcomes += [finding.outcome for finding in findings]
    return worst([*outcomes, Outcome.UNKNOWN] if lost else outcomes)


def _of_outcome(checks: Sequence[Check], outcome: Outcome, foreseen: dict[str, str]) -> tuple[Check, ...]:
    if outcome is Outcome.PASS:
        return ()
    unforeseen = [check for check in checks if check.name not in foreseen]
    return tuple(check for check in unforeseen if _OUTCOME_OF_CHECK.get(check.outcome) is outcome)


# --- expect_failed


def _expected(plan: Plan, checks: Sequence[Check], lost: str) -> Iterator[Finding]:
    by_name = {check.name: check for check in checks}
    for name in plan.expect_failed:
        check = by_name.get(name)
        if check is None or check.outcome == "not_asked":
            yield unknown(f"{name} was expected to fail and was not asked")
        elif check.outcome == "unknown":
            yield unknown(f"{name} was expected to fail")  # why it is unknown is told by the check itself
        elif check.outcome == "pass":
            yield _did_not_fail(check, lost)
        elif check.evidence:
            yield passed(f"{name} failed as expected: {check.observed}")
        else:
            yield unknown(f"{name} failed as expected, with no evidence to point to: {check.observed}")


def _did_not_fail(check: Check, lost: str) -> Finding:
    """In a run that was cut short, or seen in part, it might yet have failed."""
    if lost:
        return unknown(f"{check.name} was expected to fail and was not seen to")
    return failed(f"{check.name} was expected to fail and passed: {check.observed}")


# --- known


def _gone(entry: Entry | None, checks: Sequence[Check], lost: str) -> Iterator[Finding]:
    """What it means that no check of a known defect failed: the entry is to go, unless that cannot be told."""
    if entry is None or entry.hold is Hold.OTHER_VERSION:
        return
    named = [check for check in checks if check.name in entry.known.checks and check.outcome != "not_asked"]
    if any(check.outcome == "fail" for check in named):
        return
    unsettled = [check.name for check in named if check.outcome == "unknown"]
    reason = lost or (entry.why if entry.hold is Hold.UNCLEAR else "")
    if not reason and (unsettled or not named):
        reason = f"{unsettled[0]} is unknown" if unsettled else "none of its checks was asked"
    if reason:
        yield unknown(f"whether the known failure is gone cannot be told: {reason}")
    else:
        names = ", ".join(check.name for check in named)
        yield failed(f"known failure is gone, remove the entry: {names} passed ({entry.known.ref})")


def _about_defect(entry: Entry, rest: Outcome, others: Sequence[Check], open_words: Sequence[str]) -> str:
    """Where to read about it; or what it is that keeps it from being counted as known."""
    if rest is Outcome.PASS:
        return f"known until {entry.known.until} ({entry.known.ref})"
    unsettled = [f"{check.name} is unknown: {check.observed}" for check in others if check.outcome == "unknown"]
    return f"known ({entry.known.ref}), but not counted as known, because {[*unsettled, *open_words][0]}"


def _beside(entry: Entry, checks: Sequence[Check], defect: Sequence[Check]) -> Iterator[str]:
    """A known defect next to a plain failure; an entry that does not hold for what failed, and why."""
    failing = [check.name for check in checks if check.outcome == "fail" and check.name in entry.known.checks]
    if defect:
        yield f"{', '.join(failing)} failed, too, as known ({entry.known.ref})"
    elif failing:
        yield f"{', '.join(failing)} not counted as known: {entry.why}"
