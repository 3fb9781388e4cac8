"""What a job is not held to: harm from outside it, and harm beyond what it promises to survive.

A failure becomes unknown and says why. A pass stays one: to recover all the same is no less than was asked.
"""

from __future__ import annotations

from collections.abc import Iterable

from chaos.judge.case import Case
from chaos.judge.checks.framework import Finding, unknown
from chaos.judge.incident import Incident
from chaos.judge.promise import beyond
from chaos.model.verdict import Outcome


def by_cause(finding: Finding, *outages: Incident) -> Finding:
    """A failure in an outage that something outside the job had a part in proves nothing."""
    words = words_of(outages)
    if finding.outcome is not Outcome.FAIL or not words:
        return finding
    return unknown(f"{finding.observed}; but {words}", *finding.evidence, *refs_of(outages))


def by_promise(case: Case, outage: Incident, finding: Finding) -> Finding:
    """Nor does one where the harm went beyond what the job promises to survive."""
    if finding.outcome is not Outcome.FAIL:
        return finding
    why = beyond(case.plan, case.record, case.lineage, case.settings, outage)
    return unknown(f"{finding.observed}; but {why}", *finding.evidence) if why else finding


def words_of(outages: Iterable[Incident]) -> str:
    """What from outside the job had a part in these; empty where nothing is on record."""
    return "; ".join(dict.fromkeys(cause.text for outage in outages for cause in outage.causes))


def refs_of(outages: Iterable[Incident]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ref for outage in outages for cause in outage.causes for ref in cause.refs))
