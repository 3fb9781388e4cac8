"""The keys of `verdict.json`, from the records of `chaos/model/verdict.py`."""

from __future__ import annotations

from typing import Any

import msgspec

from chaos.model.verdict import Check, FaultVerdict, IncidentVerdict, PartTime, Verdict
from reference.markdown import code, same_names, table

RECORDS: dict[type, str] = {
    Verdict: "The verdict",
    FaultVerdict: "One entry of `faults`",
    IncidentVerdict: "One entry of `incidents`",
    PartTime: "One entry of `incidents[].parts`",
    Check: "One entry of `checks`",
}
MEANING: dict[str, str] = {
    "Verdict.schema": "version of this format",
    "Verdict.scenario": "name of the scenario, with what `vary` chose",
    "Verdict.run_id": "name of the run's folder",
    "Verdict.seed": "seed of the plan",
    "Verdict.outcome": "`passed`, `failed`, `unknown` or `not_run`",
    "Verdict.known": "failed by a known defect of others, and by nothing else; exit status 0",
    "Verdict.interrupted": "the run was ended by a signal",
    "Verdict.sentence": "the verdict in one sentence, with what was not asked",
    "Verdict.remedy": "the next step, where there is one",
    "Verdict.fidelity": "`simulated` as soon as one fault is",
    "Verdict.faults": "what became of each planned fault",
    "Verdict.incidents": "each outage, in order of time",
    "Verdict.checks": "every check, asked or not",
    "Verdict.foreseen": "of the checks that failed, those that the scenario foresees: name → `expected` or `known`",
    "Verdict.goodput": "time of surviving steps as a share of the job's time, 0 to 1",
    "Verdict.ettr": "effective training time ratio: as goodput, less the time that saving held up training",
    "Verdict.controls": "the fault-free runs compared with, relative to this run's folder",
    "Verdict.settings_seen": "every interval and size in force, as the ranks told them",
    "Verdict.versions": "Python, torch and NVRx, as the ranks told them",
    "Verdict.repeat": "the command that repeats this run",
    "FaultVerdict.name": "its name in the scenario",
    "FaultVerdict.fault": "its name in the [catalogue](faults.md)",
    "FaultVerdict.params": "its parameters, defaults filled in",
    "FaultVerdict.target": "the initial ranks it was aimed at",
    "FaultVerdict.fidelity": "`real` or `simulated`",
    "FaultVerdict.layer": "what it truly acts on",
    "FaultVerdict.certifies": "what a pass says",
    "FaultVerdict.does_not_certify": "what a pass does not say",
    "FaultVerdict.fired": "where it fired; empty: it did not",
    "FaultVerdict.confirmed": "what was seen from outside; empty: nothing",
    "FaultVerdict.undone": "how it was taken back; empty: nothing to take back, or it was not",
    "IncidentVerdict.faults": "names of the faults it began with; empty: none of ours",
    "IncidentVerdict.recovered_by": "`in_process`, `in_job`, `new_job`, or `none`: the same process group went on; "
    "null: never",
    "IncidentVerdict.detection_time_s": "first fault fired → first word of NVRx or the job",
    "IncidentVerdict.detection_is_bound": "noticed at the latest then; when exactly was not seen",
    "IncidentVerdict.detection_source": "the event (and log line) it rests on",
    "IncidentVerdict.detection_error_s": "error of that time stamp",
    "IncidentVerdict.recovery_time_s": "clock start → first new step of every rank",
    "IncidentVerdict.catch_up_time_s": "clock start → first step beyond the highest one before",
    "IncidentVerdict.full_recovery_time_s": "clock start → steady again",
    "IncidentVerdict.parts": "what the recovery time was spent on; the parts add up to it",
    "IncidentVerdict.lost_steps": "steps done by all ranks and done again",
    "IncidentVerdict.restarts": "restarts that led to a step, by layer; `abandoned`: those that led nowhere",
    "IncidentVerdict.cause": "what from outside the job had a part in it, where kernel or scheduler recorded it",
    "PartTime.name": "`detection`, `teardown`, `start`, `rendezvous`, `init`, `checkpoint_load`, `first_step`",
    "PartTime.time_s": "how long it took",
    "PartTime.bounded_by": "the setting that the time was spent on, where one explains it",
    "Check.name": "see [checks.md](checks.md)",
    "Check.outcome": "`pass`, `fail`, `unknown` or `not_asked`",
    "Check.expected": "what it was held to",
    "Check.observed": "what was seen, or why it is not known",
    "Check.evidence": "`FILE:LINE` of events and logs, inside the run's folder",
}


def keys() -> str:
    """One table for each record."""
    same_names("verdict keys", MEANING, (f"{r.__name__}.{name}" for r in RECORDS for name in r.__struct_fields__))
    return "\n\n".join(_section(record, title) for record, title in RECORDS.items())


def _section(record: type, title: str) -> str:
    definition = msgspec.json.schema(record)["$defs"][record.__name__]
    rows = [
        (code(name), _kind(rule), MEANING[f"{record.__name__}.{name}"])
        for name, rule in definition["properties"].items()
    ]
    return f"### {title}\n\n{table(('key', 'is', 'meaning'), rows)}"


def _kind(rule: dict[str, Any]) -> str:
    if "anyOf" in rule:
        return " or ".join(_kind(option) for option in rule["anyOf"])
    if rule.get("type") == "array":
        return "list of " + ("records" if "$ref" in rule["items"] else _kind(rule["items"]))
    return {"string": "text", "object": "mapping", "integer": "whole number", "boolean": "true or false"}.get(
        rule.get("type", ""), rule.get("type", "any value")
    )
