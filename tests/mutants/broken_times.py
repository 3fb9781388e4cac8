"""Histories in which the job was noticed or brought back too late, or only seemed to be."""

from __future__ import annotations

from mutant import broken_history
from tale import Line, Tale, own

LATE_NOTICE_S, LATE_RECOVERY_S, SLOW_PART_S = 7.0, 120.0, 4.0
BEFORE_S = 1.0  # before the fault: far more than any clock error that a source states
SURVIVES_THE_END = ("job_finished", "residue_measured", "run_concluded")


def noticed_late(tale: Tale) -> None:
    """The launcher noticed seven seconds later."""
    tale.later(LATE_NOTICE_S, since=tale.noticed[0])


def back_late(tale: Tale) -> None:
    """The new processes came two minutes later."""
    tale.later(LATE_RECOVERY_S, since=tale.one("process_appeared", life=tale.lives_of(tale.groups[-1])[0]))


def loads_slowly(tale: Tale) -> None:
    """Loading the checkpoint took four seconds more, and the whole recovery still kept its time."""
    tale.later(SLOW_PART_S, since=tale.one("checkpoint_loaded"))


def noticed_before_the_fault(tale: Tale) -> None:
    """By its clock the launcher noticed the fault a second before it fired."""
    fired_ns = tale.fired["t_ns"]
    for line in tale.noticed:
        line["t_ns"] = fired_ns - round(BEFORE_S * 1e9)


def reported_while_busy(tale: Tale) -> None:
    """Steps are reported while the device still works on them."""
    tale.change(tale.all("step_done", group=tale.groups[-1]), device_busy=True)


def ghost_step(tale: Tale) -> None:
    """A stopped rank was woken to be killed and finished its step with its peer; then nothing came back."""
    group = tale.groups[0]
    moment = tale.one("process_exited", role="rank")
    lasts = [tale.last("step_done", group=group, rank=rank) for rank in range(2)]
    again = [tale.one("step_done", group=tale.groups[-1], rank=last["rank"], step=last["step"] + 1) for last in lasts]
    tale.end_at(moment, but=SURVIVES_THE_END)
    for last, ghost in zip(lasts, again, strict=True):
        if not tale.all("step_done", group=group, rank=last["rank"], step=ghost["step"]):
            _one_more(tale, last, own(ghost), at=moment)
    tale.change(tale.all("job_finished"), code=1)


def _one_more(tale: Tale, last: Line, done: Line, *, at: Line) -> None:
    """That rank does one step more, right before that moment, as it did it later."""
    step = done["step"]
    tale.add(last, "phase_entered", phase="backward", step=step, at=at, after_s=-0.05)
    tale.add(last, "phase_entered", phase="optimizer", step=step, at=at, after_s=-0.04)
    tale.add(last, "step_returned", step=step, at=at, after_s=-0.03)
    tale.add(last, "step_done", **done, at=at, after_s=-0.02)


MUTANTS = (
    broken_history(noticed_late, must_fail="detected_in_time"),
    broken_history(back_late, must_fail="recovered_in_time"),
    broken_history(loads_slowly, must_fail="parts_in_time"),
    broken_history(
        noticed_before_the_fault, must_be_unknown=("steady_before", "detected_in_time"),
        objective={"detection_time_s": 1.0},
    ),
    broken_history(reported_while_busy, must_fail="steady_after"),
    broken_history(ghost_step, twin="hang", must_fail=("recovered_in_time", "job_finished")),
)  # fmt: skip
