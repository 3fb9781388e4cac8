"""Run directory in, verdict and report files out: the first time, and again later.

Reads only what lies in the run directory, so a run can be judged anywhere, by a better judge.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from chaos.errors import CannotWrite, ChaosError, NothingToRun
from chaos.files import read_plain, write_atomically
from chaos.history import reader
from chaos.history.quote import kept_files, quoted
from chaos.judge.control import control_of
from chaos.judge.judge import judge_record
from chaos.judge.record import Record
from chaos.model.control import ControlRun
from chaos.model.plan import SCHEMA as PLAN_SCHEMA
from chaos.model.plan import Plan
from chaos.model.timeline import Timeline
from chaos.model.verdict import SCHEMA as VERDICT_SCHEMA
from chaos.model.verdict import Verdict

EXPERIMENT = "experiment.json"
VERDICT = "verdict.json"
CONTROL = "control.jsonl"
REPORT = "report.html"
JUNIT = "junit.xml"
LOG_LINES = 40


def read_plan(run_dir: Path) -> Plan:
    """The plan in `experiment.json`. Raises NothingToRun or CannotWrite with the file's name."""
    return _read_experiment(run_dir)[0]


def _no_run_directory(path: Path) -> NothingToRun:
    return NothingToRun(
        f"{path} is not a run directory: it has no {EXPERIMENT}", remedy="give a folder reports/<scenario>/<run_id>"
    )


def _read_experiment(run_dir: Path) -> tuple[Plan, str | None]:
    """The plan, and the id of the run that it was written for: the last part of the folder that the runner was told,
    however the folder is called by now."""
    path = run_dir / EXPERIMENT
    try:
        configuration = json.loads(read_plain(path).decode())["configuration"]
        plan = msgspec.convert(configuration["plan"], Plan)
        told = configuration.get("run_dir")
    except FileNotFoundError:
        raise _no_run_directory(run_dir) from None
    except OSError as error:
        raise CannotWrite(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, msgspec.ValidationError) as error:
        raise CannotWrite(f"{path} holds no plan that this version reads: {error}") from error
    if plan.schema != PLAN_SCHEMA:
        raise CannotWrite(f"{path} has a plan of schema {plan.schema!r}; this version reads {PLAN_SCHEMA}")
    return plan, Path(told).name or None if isinstance(told, str) else None


def judge_run(run_dir: Path) -> tuple[Verdict, Timeline]:
    """Judges a finished run directory from its history. Writes nothing."""
    plan, run_id = _read_experiment(run_dir)
    history = reader.read(run_dir, run_id=run_id)
    controls, trouble = read_controls(run_dir)
    record = Record(history.events(skip_routine=True))
    return judge_record(plan, record, [*history.blind, *trouble], controls, run_id=run_id or run_dir.name)


def control_witness(run_dir: Path) -> ControlRun:
    """What a fault-free run did, as a witness for others. Never raises for a bad run: it is then not `clean`."""
    try:
        plan, run_id = _read_experiment(run_dir)
        history = reader.read(run_dir, run_id=run_id)
        return control_of(
            Record(history.events(skip_routine=True)),
            history.blind,
            run_id=run_dir.name,
            path=str(run_dir),
            world_size=plan.job.world_size,
            steps=plan.job.steps,
        )
    except ChaosError as error:
        return ControlRun(run_id=run_dir.name, path=str(run_dir), clean=False, unclean_why=error.message)


def conclude(run_dir: Path) -> Verdict:
    """Judges and writes `verdict.json`, `junit.xml` and `report.html`."""
    verdict, timeline = judge_run(run_dir)
    write_verdict(run_dir, verdict)
    write_reports(run_dir, read_plan(run_dir), verdict, timeline)
    return verdict


def plain_verdict(
    plan: Plan, run_id: str, outcome: str, sentence: str, *, remedy: str = "", interrupted: bool = False
) -> Verdict:
    """A verdict about a run that has no history to be judged: refused, or never opened."""
    return Verdict(
        scenario=plan.scenario,
        run_id=run_id,
        seed=plan.seed,
        outcome=outcome,
        interrupted=interrupted,
        sentence=sentence,
        remedy=remedy,
        repeat=plan.repeat,
    )


def write_verdict(run_dir: Path, verdict: Verdict) -> None:
    from chaos.report.json import verdict_json

    write_atomically(run_dir / VERDICT, verdict_json(verdict))


def write_reports(run_dir: Path, plan: Plan, verdict: Verdict, timeline: Timeline) -> None:
    """`junit.xml` and `report.html` of one run."""
    from chaos.report.html import report_html
    from chaos.report.junit import junit_xml

    write_atomically(run_dir / JUNIT, junit_xml([verdict]))
    write_atomically(run_dir / REPORT, report_html(verdict, timeline, plan=plan, **_texts(run_dir, verdict)))


def page(run_dir: Path, verdict: Verdict) -> str:
    """The HTML page of a recorded verdict, with pictures drawn from the run's history."""
    from chaos.report.html import report_html

    return report_html(verdict, judge_run(run_dir)[1], plan=read_plan(run_dir), **_texts(run_dir, verdict))


def _texts(run_dir: Path, verdict: Verdict) -> dict[str, dict[str, str]]:
    """What the page shows of the run's files."""
    from chaos.report.evidence import worth_quoting

    cited = {ref for check in verdict.checks for ref in worth_quoting(check)}
    return {"logs": log_excerpts(run_dir), "kept": kept_files(run_dir), "quotes": quoted(run_dir, sorted(cited))}


def read_verdict(run_dir: Path) -> Verdict:
    """The verdict as it was written. Raises NothingToRun when there is none, CannotWrite when it cannot be read or is
    not that of this run."""
    path = run_dir / VERDICT
    try:
        verdict = msgspec.json.decode(read_plain(path), type=Verdict)
    except FileNotFoundError:
        if not (run_dir / EXPERIMENT).is_file():
            raise _no_run_directory(run_dir) from None
        raise NothingToRun(
            f"{run_dir} has no {VERDICT}", remedy=f"nvrx-chaos judge --write {run_dir}   # judges it from its history"
        ) from None
    except OSError as error:
        raise CannotWrite(f"cannot read {path}: {error.strerror or error}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CannotWrite(f"{path} is not a verdict that this version reads: {error}") from error
    if verdict.schema != VERDICT_SCHEMA:
        raise CannotWrite(f"{path} has schema {verdict.schema!r}; this version reads {VERDICT_SCHEMA}")
    run_id = _run_id(run_dir)
    if run_id is not None and verdict.run_id != run_id:
        raise CannotWrite(
            f"{path} is the verdict of run {verdict.run_id}, and {EXPERIMENT} beside it is of run {run_id}",
            remedy=f"nvrx-chaos judge --write {run_dir}   # judges what is there",
        )
    return verdict


def _run_id(run_dir: Path) -> str | None:
    try:
        return _read_experiment(run_dir)[1]
    except ChaosError:
        return None  # then nothing says whose verdict it has to be


def read_controls(run_dir: Path) -> tuple[list[ControlRun], list[Any]]:
    """The fault-free witnesses, and what was wrong with their file."""
    from chaos.model.events import Blind

    controls: list[ControlRun] = []
    path = run_dir / CONTROL
    try:
        lines = read_plain(path).splitlines()
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [Blind(source="control", reason=f"{CONTROL}: {error.strerror or error}", file=CONTROL)]
    for number, line in enumerate(lines, 1):
        try:
            controls.append(msgspec.json.decode(line, type=ControlRun))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return controls, [Blind(source="control", reason=f"{CONTROL}:{number}: {error}", file=CONTROL)]
    return controls, []


def log_excerpts(run_dir: Path) -> dict[str, str]:
    """The last lines of each log of the run, for the report."""
    excerpts = {}
    for path in sorted((run_dir / "logs").glob("*.log")):
        try:
            text = read_plain(path)[-20_000:].decode("utf-8", "replace")
        except OSError:
            continue
        excerpts[f"logs/{path.name}"] = "\n".join(text.splitlines()[-LOG_LINES:])
    return excerpts
