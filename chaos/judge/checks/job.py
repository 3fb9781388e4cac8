"""How the job ended, and what it left behind."""

from __future__ import annotations

import signal
from typing import Any

from chaos.judge.case import Case, how_it_ended
from chaos.judge.checks import citing
from chaos.judge.checks.excused import refs_of, words_of
from chaos.judge.checks.framework import CONTROLLER, RANKS, CheckSpec, Finding, failed, passed, reference_job, unknown
from chaos.judge.incident import Incident
from chaos.judge.noise import excuse_s

RESIDUE_AFTER_S = 5.0  # what is gone by then was only slow to end
RECOVERY_MAX_S = 20.0  # where the objective names no time: what a busy machine may need
EXIT_MAX_S = 8.0  # launchers end some seconds after their ranks; the session waits a little longer than this
_FROM_OUTSIDE = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGHUP, signal.SIGQUIT})
_KINDS_OF_RESIDUE = (
    ("processes", "process"), ("shared_memory", "shared memory"), ("ports", "port"),
    ("temporary_files", "temporary file"),
)  # fmt: skip

# --- job_finished


def job_finished(case: Case) -> Finding:
    finished = case.record.last("job_finished")
    all_done = case.all_finished()
    if case.record.stop_ns is not None:
        return _stopped(case)
    if finished is None:
        return unknown("how the job ended was not seen", *citing.ending(case))
    code = finished.data.get("code")
    refs = (finished.ref, *citing.refs(case.record.of("rank_finished")))
    status = how_it_ended(finished)
    if code == 0 and all_done:
        return passed("status 0, every rank had done all steps", *refs)
    if code == 0 and not reference_job(case.plan) and not case.record.of("rank_finished"):
        return unknown(f"{status}; no rank said how far it came", *refs)
    if code == 0:
        return failed(f"{status}, but not every rank had done all {case.plan.job.steps} steps", *refs)
    if all_done:
        return failed(f"{status}, though every rank had done all steps", *refs)
    words = f"ended early: {status}"
    cause, told = _from_outside(case)
    if cause:
        return unknown(f"{words}; but {cause}", *told, *refs)
    if not case.fired and case.plan.faults:
        # It died before our fault could show anything: no verdict on the recovery can rest on that.
        return unknown(f"{words}, before any fault had fired", finished.ref)
    return failed(words, finished.ref)


def _from_outside(case: Case) -> tuple[str, tuple[str, ...]]:
    """What outside the job ended it, and where that is told; empty words where nothing is on record."""
    last, finished = case.incidents[-1:], case.record.last("job_finished")
    if words_of(last) and last[0].holding is None:
        return words_of(last), refs_of(last)
    ended_by = None if finished is None else finished.data.get("signal")
    if finished is not None and not case.fired and isinstance(ended_by, int) and ended_by in _FROM_OUTSIDE:
        return f"the job was ended from outside, by {signal.Signals(ended_by).name}", (finished.ref,)
    return "", ()


def _stopped(case: Case) -> Finding:
    """We ended it. That it hung is only said where it had had its time to recover from a fault, and did not."""
    asked = case.record.first("stop_requested")
    words, stands = citing.stood(case)
    refs = (*stands, *citing.refs([asked] if asked else []))
    reason = asked.data.get("reason", "") if asked else ""
    stuck = [outage for outage in case.outages if outage.holding is None and _had_its_time(case, outage)]
    if stuck and not case.record.interrupted:
        last_ns = case.record.last_step_ns or case.record.start_ns
        still_s = (case.record.observed_until_ns - last_ns) / 1e9
        # recovered_in_time tells where the ranks stood, if it is asked: once is enough for the verdict's sentence
        told = words if case.plan.objective.recovery_time_s is None else ""
        return failed(f"hung: no step in the last {still_s:.1f} s before it was stopped ({reason}){told}", *refs)
    exit_s = _exit_s(case)
    if exit_s > EXIT_MAX_S and not case.record.interrupted:
        done = citing.refs(case.record.of("rank_finished"))
        return failed(
            f"hung at its end: every rank had done all steps {exit_s:.1f} s before it was stopped{words}", *refs, *done
        )
    return unknown(f"stopped by us: {reason}", *refs)


def _exit_s(case: Case) -> float:
    """How long the job went on after every rank had done all steps, less what the machine withheld; 0: they had not."""
    last = case.record.last("rank_finished")
    if last is None or not case.all_finished():
        return 0.0
    until_ns = case.record.observed_until_ns
    return (until_ns - last.t_ns) / 1e9 - excuse_s(case.record, last.t_ns, until_ns)


def _had_its_time(case: Case, outage: Incident) -> bool:
    """Stopped sooner, whatever our reason was, it might yet have come back."""
    if outage.clock_ns is None:
        return False
    watched_s = (outage.limit_ns - outage.clock_ns) / 1e9
    return watched_s - excuse_s(case.record, outage.clock_ns, outage.limit_ns) > (
        case.plan.objective.recovery_time_s or RECOVERY_MAX_S
    )


# --- no_residue


def no_residue(case: Case) -> Finding:
    measured = case.record.last("residue_measured")
    if measured is None:
        return unknown("not measured", *citing.ending(case))
    if measured.data.get("readable") is not True:
        return unknown("could not be read", measured.ref)
    if unsaid := [words for name, words in _KINDS_OF_RESIDUE if not isinstance(measured.data.get(name), list)]:
        return unknown(f"of {', '.join(unsaid)} nothing was recorded", measured.ref)
    left = [(words, found) for name, words in _KINDS_OF_RESIDUE if (found := measured.data.get(name))]
    after_s = measured.data.get("after_s")
    if not left:
        return passed("nothing left", measured.ref)
    words = "; ".join(f"{len(found)} {name}{_examples(found)}" for name, found in left)
    if case.record.stop_ns is not None:
        return unknown(f"{words}; but the job was stopped by us", measured.ref)
    if not isinstance(after_s, int | float) or after_s < RESIDUE_AFTER_S * 0.9:
        return unknown(f"{words}; but looked at too early ({after_s} s after its end)", measured.ref)
    cause, refs = _from_outside(case)
    if cause:  # whoever ends a launcher alone leaves its processes behind
        return unknown(f"{words}; but {cause}", measured.ref, *refs)
    return failed(f"{words}, {after_s:.1f} s after its end", measured.ref)


def _examples(found: list[Any]) -> str:
    shown = ", ".join(str(each)[:60] for each in found[:3])
    return f" ({shown}{', ...' if len(found) > 3 else ''})"


CHECKS = (
    CheckSpec(
        name="no_residue", needs=frozenset({CONTROLLER}),
        expects=lambda plan: f"nothing of the job left {RESIDUE_AFTER_S:g} s after its end", body=no_residue,
    ),
    CheckSpec(
        name="job_finished", needs=frozenset({RANKS, CONTROLLER}),
        expects=lambda plan: f"status 0 and {plan.job.steps} steps by every rank", body=job_finished,
    ),
)  # fmt: skip
