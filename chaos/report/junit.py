"""Verdicts as JUnit XML, for the test view of a CI system. A suite per scenario family, a case per run.

failed → failure; unknown → error of type "unknown"; not_run and known failures → skipped.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence

from chaos.model.verdict import IncidentVerdict, Verdict
from chaos.report import words
from chaos.report.clean import one_line, visible


def junit_xml(verdicts: Sequence[Verdict], *, duration_s: Mapping[str, float] | None = None) -> str:
    """One document. `duration_s` maps run ids to the whole run's seconds, where the caller knows them."""
    durations = duration_s or {}
    root = ET.Element("testsuites", {"name": "nvrx-chaos", **_counts(verdicts)})
    for name in dict.fromkeys(words.family(verdict.scenario) for verdict in verdicts):
        members = [verdict for verdict in verdicts if words.family(verdict.scenario) == name]
        suite = ET.SubElement(root, "testsuite", {"name": one_line(name), **_counts(members)})
        for verdict in members:
            _case(suite, verdict, durations.get(verdict.run_id))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _counts(verdicts: Sequence[Verdict]) -> dict[str, str]:
    tags = [_tag(verdict) for verdict in verdicts]
    return {
        "tests": str(len(tags)),
        "failures": str(tags.count("failure")),
        "errors": str(tags.count("error")),
        "skipped": str(tags.count("skipped")),
    }


def _tag(verdict: Verdict) -> str | None:
    """The child that says how a case ended; only a passed one has none, whatever else outcomes may grow."""
    if verdict.outcome == "passed":
        return None
    if verdict.outcome == "not_run" or words.is_known_failure(verdict):
        return "skipped"
    return "failure" if verdict.outcome == "failed" else "error"


def _case(suite: ET.Element, verdict: Verdict, duration_s: float | None) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=f"nvrx-chaos.{one_line(words.family(verdict.scenario))}",
        name=f"{one_line(verdict.scenario)} seed={verdict.seed}",
    )
    if duration_s is not None:
        case.set("time", f"{duration_s:.3f}")
    properties = ET.SubElement(case, "properties")
    for key, value in _properties(verdict):
        ET.SubElement(properties, "property", name=key, value=one_line(value, 2000))
    tag = _tag(verdict)
    if tag is not None:
        kind = words.shown_as(verdict)
        ending = ET.SubElement(case, tag, type=one_line(kind), message=words.decided_by(verdict))
        ending.text = _reasons(verdict)
    ET.SubElement(case, "system-out").text = visible(verdict.sentence)


def _properties(verdict: Verdict) -> list[tuple[str, str]]:
    rows = [("run_id", verdict.run_id), ("seed", str(verdict.seed)), ("fidelity", verdict.fidelity)]
    for fault in verdict.faults:
        rows.append((f"fault.{fault.name}", f"{words.fault_words(fault)}, layer {fault.layer}"))
    for index, incident in enumerate(verdict.incidents, start=1):
        # one incident is the rule; only a run with several needs their numbers
        rows += _incident_properties(incident, f"incident_{index}." if len(verdict.incidents) > 1 else "")
    return [*rows, ("repeat", verdict.repeat)]


def _incident_properties(incident: IncidentVerdict, prefix: str) -> list[tuple[str, str]]:
    times = {
        "detection_time_s": incident.detection_time_s,
        "recovery_time_s": incident.recovery_time_s,
        "catch_up_time_s": incident.catch_up_time_s,
        "full_recovery_time_s": incident.full_recovery_time_s,
    }
    rows = [(prefix + "recovered_by", incident.recovered_by or words.NOT_SEEN)]
    rows += [(prefix + name, f"{value:.3f}") for name, value in times.items() if value is not None]
    if incident.detection_is_bound:
        rows.append((prefix + "detection_is_bound", "true"))
    if incident.lost_steps is not None:
        rows.append((prefix + "lost_steps", str(incident.lost_steps)))
    return rows


def _reasons(verdict: Verdict) -> str:
    lines = [verdict.sentence]
    for check in verdict.checks:
        if check.outcome in ("fail", "unknown"):
            evidence = f" [{', '.join(check.evidence[:10])}]" if check.evidence else ""
            told = words.check_words(verdict, check)
            lines.append(f"{check.name}: {told}; expected {check.expected}; observed {check.observed}{evidence}")
    lines += [f"next: {verdict.remedy}"] if verdict.remedy else []
    lines += [f"repeat: {verdict.repeat}"] if verdict.repeat else []
    return visible("\n".join(lines))
