"""Histories in which the fault itself went wrong: fired elsewhere, twice, not at all, or was not taken back."""

from __future__ import annotations

from mutant import broken_history
from tale import Tale, own

REPEATED_S = 0.002


def fired_at_another_step(tale: Tale) -> None:
    """The fault fired one step before the one it was planned for."""
    tale.fired["step"] -= 1


def fired_twice(tale: Tale) -> None:
    """The fault fired twice in the same rank."""
    tale.add(tale.fired, "fault_fired", after_s=REPEATED_S, **own(tale.fired))


def fired_in_another_rank(tale: Tale) -> None:
    """The fault fired in rank 1 and was planned for rank 0."""
    tale.plan["faults"][0]["ranks"] = [0]


def hit_another_rank(tale: Tale) -> None:
    """Rank 1 fired, and rank 0's process was seen to die of it."""
    other = tale.lives_of(tale.groups[0])[0]
    tale.change(tale.all("fault_confirmed"), life=other, rank=0, initial_rank=0)


def did_nothing(tale: Tale) -> None:
    """The fault fired and silently did nothing."""
    said = tale.all("fault_confirmed")
    tale.change(said, kind="fault_not_confirmed", reason="the process was never stopped", contrary=True)


def not_seen_to_act(tale: Tale) -> None:
    """The fault fired, and nobody saw from outside that it acted."""
    tale.drop("fault_confirmed", "fault_not_confirmed")


def never_fired(tale: Tale) -> None:
    """The fault silently never fired, and the job looks all the better for it."""
    tale.drop("fault_armed", "fault_fired", "fault_confirmed", "fault_undone")


def not_taken_back(tale: Tale) -> None:
    """Something that we made is still there after the run."""
    tale.one("run_concluded")["open_entries"] = 1


MUTANTS = (
    broken_history(fired_at_another_step, must_fail="faults_fired_as_planned"),
    broken_history(fired_twice, must_fail="faults_fired_as_planned"),
    broken_history(fired_in_another_rank, must_fail="faults_fired_as_planned"),
    broken_history(hit_another_rank, must_fail="fault_took_effect"),
    broken_history(did_nothing, twin="shrugged-off", must_fail="fault_took_effect"),
    broken_history(not_seen_to_act, must_be_unknown="fault_took_effect"),
    broken_history(never_fired, twin="shrugged-off", must_be_unknown=("faults_fired_as_planned", "fault_took_effect")),
    broken_history(not_taken_back, must_fail="undone"),
)
