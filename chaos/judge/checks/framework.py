"""What a check is, when it is asked, and the one place where blindness and interruption are dealt with.

A check's body sees only evidence that is whole; it decides nothing about sources. The worst finding of several wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from chaos.judge.case import REFERENCE_JOB, Case
from chaos.judge.checks.citing import ending, of_blind
from chaos.model.events import Blind
from chaos.model.plan import Plan
from chaos.model.verdict import WORD, Check, Outcome

EVIDENCE_MAX = 8  # references shown for one check; more are counted in words

RANKS, CONTROLLER, CONTROL, GROUPS, LAUNCHER_LOG = "rank", "controller", "control", "group", "launcher_log"
LAUNCHER, MONITOR, NVRX_LOG = "launcher", "monitor", "nvrx_log"  # files of their own; a process that is not heard
NVRX_WORDS = frozenset({LAUNCHER_LOG, LAUNCHER, MONITOR, NVRX_LOG})  # what NVRx says outside the ranks
# What the controller looks at and cannot always see: how processes ended, and what lies in the checkpoint folder.
EXIT_STATUS, CHECKPOINT_FOLDER = "exit_status", "checkpoint_folder"
# Without these no file is known to be whole, so what rests on files is unknown.
_BLINDS_ALL_FILES = frozenset({"manifest"})
# A rank out of our reach can still be seen; the run as a whole is not passed then, but no check loses its evidence.
_KNOWN = NVRX_WORDS | {
    RANKS, CONTROLLER, CONTROL, GROUPS, EXIT_STATUS, CHECKPOINT_FOLDER, "manifest", "plan", "control_channel",
    "machine",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a check's body found out."""

    outcome: Outcome
    observed: str
    evidence: tuple[str, ...] = ()


def passed(observed: str, *evidence: str) -> Finding:
    return Finding(outcome=Outcome.PASS, observed=observed, evidence=evidence)


def failed(observed: str, *evidence: str) -> Finding:
    return Finding(outcome=Outcome.FAIL, observed=observed, evidence=evidence)


def unknown(observed: str, *evidence: str) -> Finding:
    return Finding(outcome=Outcome.UNKNOWN, observed=observed, evidence=evidence)


def worst_of(findings: Iterable[Finding], *, nothing: Finding) -> Finding:
    """The worst of several, with its words; the words of all that are as bad are joined."""
    found = list(findings)
    if not found:
        return nothing
    outcome = max(finding.outcome for finding in found)
    as_bad = [finding for finding in found if finding.outcome is outcome]
    words = "; ".join(dict.fromkeys(finding.observed for finding in as_bad if finding.observed))
    return Finding(outcome=outcome, observed=words, evidence=tuple(ref for each in as_bad for ref in each.evidence))


def reference_job(plan: Plan) -> bool:
    """The default of checks that rest on what only the reference job records."""
    return plan.job.run == REFERENCE_JOB


def always(plan: Plan) -> bool:
    return True


def has_faults(plan: Plan) -> bool:
    return bool(plan.faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSpec:
    """One check of the closed set. `needs`: sources without which it is unknown. `stands`: what it passed on is over
    and done with, so a later interruption changes nothing."""

    name: str
    needs: frozenset[str]
    expects: Callable[[Plan], str]
    body: Callable[[Case], Finding]
    asked: Callable[[Plan], bool] = always
    core: bool = False
    stands: bool = False

    def is_asked(self, plan: Plan) -> bool:
        if self.name in plan.objective.added:
            return True
        if self.name in plan.objective.dropped and not self.core:
            return False
        return self.asked(plan)


def ask(spec: CheckSpec, case: Case, blind: Sequence[Blind]) -> Check:
    """The check's answer: not asked, or its finding, or why it cannot be known."""
    expected = spec.expects(case.plan)
    if not spec.is_asked(case.plan):
        return Check(name=spec.name, outcome="not_asked", expected=expected)
    finding = _finding(spec, case, blind)
    refs = tuple(dict.fromkeys(ref for ref in finding.evidence if ref))[:EVIDENCE_MAX]
    return Check(
        name=spec.name, outcome=WORD[finding.outcome], expected=expected, observed=finding.observed, evidence=refs
    )


def _finding(spec: CheckSpec, case: Case, blind: Sequence[Blind]) -> Finding:
    unseen = [source for source in blind if _needs(spec, source)]
    if unseen:
        more = f" (and {len(unseen) - 1} more)" if len(unseen) > 1 else ""
        return unknown(f"blind: {unseen[0].reason}{more}", *of_blind(unseen))
    finding = spec.body(case)
    cut_short = case.record.interrupted and case.record.stop_ns is not None
    if not cut_short or finding.outcome is Outcome.FAIL or (spec.stands and finding.outcome is Outcome.PASS):
        return finding
    words, refs = f"interrupted; {finding.observed}", (*finding.evidence, *ending(case))
    return Finding(outcome=Outcome.UNKNOWN, observed=words, evidence=refs)


def _needs(spec: CheckSpec, source: Blind) -> bool:
    if source.source in _BLINDS_ALL_FILES:
        return bool(spec.needs & {RANKS, CONTROLLER})
    if source.source in _KNOWN:
        return source.source in spec.needs
    # A name we do not know: whoever said it wrote about its own file.
    writer = CONTROLLER if source.file.startswith("controller") or source.life is None else RANKS
    return writer in spec.needs
