"""The closed set of checks: when each is asked and what it needs from the registry, what it means in words."""

from __future__ import annotations

from chaos.judge.checks.framework import (
    CHECKPOINT_FOLDER,
    CONTROL,
    CONTROLLER,
    EXIT_STATUS,
    GROUPS,
    LAUNCHER,
    LAUNCHER_LOG,
    MONITOR,
    NVRX_LOG,
    RANKS,
    CheckSpec,
)
from chaos.judge.checks.registry import REGISTRY
from chaos.model.plan import At, FaultPlan, JobPlan, ObjectivePlan, Plan, Restarts
from reference.markdown import code, same_names, table

SOURCES = {
    RANKS: "the ranks' own histories",
    CONTROLLER: "the controller's history",
    CONTROL: "the fault-free runs",
    GROUPS: "process groups told apart",
    LAUNCHER: "the launcher's own file",
    MONITOR: "the monitors' own files",
    NVRX_LOG: "NVRx heard in each process",
    LAUNCHER_LOG: "the launcher's log",
    EXIT_STATUS: "how processes ended",
    CHECKPOINT_FOLDER: "a look into the checkpoint folder",
}
# check -> asks, fails when, unknown when
WORDS: dict[str, tuple[str, str, str]] = {
    "steady_before": (
        "Was the job steady before the first fault, by itself?",
        "never: it is a precondition",
        "fewer steps in a row by all ranks than `steady_state.steps`, or a restart or interruption before the fault, "
        "whoever caused it",
    ),
    "faults_fired_as_planned": (
        "Did each planned fault fire, once, in its rank, at its step, phase and point?",
        "it fired elsewhere, twice, at another moment, or unplanned",
        "it did not fire, or where it fired was not recorded",
    ),
    "fault_took_effect": (
        "Did evidence from outside the rank show that the fault acted?",
        "evidence that it did not act, or hit another target",
        "no such evidence, or it never fired",
    ),
    "undone": (
        "Is everything of *ours* gone, and was that measured?",
        "something of ours is still there (exit status 4)",
        "it could not be measured (exit status 4, too)",
    ),
    "detected_in_time": (
        "Did NVRx or the job notice within `objective.detection_time`?",
        "later than that, also with the error of the time stamp and the noise taken off",
        "no word of it; only an upper bound, which is over; within the error of the time stamp; noise",
    ),
    "recovered_in_time": (
        "Did every rank do a new step in a later process group within `objective.recovery_time`, and was the job "
        "steady again within `full_recovery_time` where that is given?",
        "later than that; never, though it was watched long enough; the job ended without it",
        "noise; stopped before the time was over; the job had done all its steps before it could show it; no undo "
        "was seen where the clock starts there; harm [from outside](judging.md#interruptions-that-we-did-not-cause) or "
        "[beyond what the job promises](judging.md#what-the-job-never-promised)",
    ),
    "parts_in_time": (
        "Did each named part of the recovery keep its `objective.parts` time?",
        "a part took longer",
        "that part was not seen; noise; a cause outside the job",
    ),
    "steady_after": (
        "Did the job do `steady_state.steps` steps beyond the highest one before, at most "
        "`objective.step_time_ratio` times as slow?",
        "fewer, though nothing cut it short; fewer that the device had finished when they were reported; or slower",
        "it never recovered, the job ended or was stopped first, another outage came first; noise; a cause outside the "
        "job",
    ),
    "recovered_by": (
        "Did the expected layer bring the job back? With `none`: did nothing restart?",
        "another layer, or nothing, or (with `none`) any restart or interruption",
        "no fault fired, nothing brought it back, the layer was not seen, or a cause outside the job",
    ),
    "restart_budget": (
        "Did each layer restart at most as often as `objective.restarts` allows? Restarts that led nowhere are shown "
        "and not counted.",
        "more often",
        "a restart by a launcher or process that was not seen, or more often only with those that something "
        "[outside the job](judging.md#interruptions-that-we-did-not-cause) set off",
    ),
    "world_size": (
        "Had every process group the number of ranks that `objective.world_size` says?",
        "another number",
        "a group's size was not seen, or no group did a step",
    ),
    "blamed_right": (
        "With `objective.blamed: right`: do [NVRx's own records](judging.md#blame) name a rank that was hit?",
        "they name only ranks that nothing hit; a healthy one named first or as well is a note",
        "no record of NVRx that names a rank was read; or the one named was hit by another fault of the same incident",
    ),
    "lost_work": (
        "Were at most `objective.lost_steps` steps done again, from the newest checkpoint that counts?",
        "more; or an older checkpoint was taken without a recorded refusal of the newer one",
        "never recovered, or the job ended before it had caught up",
    ),
    "single_history": (
        "Did one group train after another, and the last step once? A *ghost*, one or two steps that a rank finishes "
        "after it was woken to be killed, is no second history.",
        "two groups surely trained at the same time; a group committed a checkpoint after its successor's first step; "
        "two groups did the last step, though the first had ended or nothing had interrupted it",
        "groups are not told apart; or their order is within the error of two hosts' clocks",
    ),
    "ranks_agree": (
        "Do all ranks have the same step, learning rate, reduced loss, gradient norm, part of the data and replicated "
        "state at the first step after a recovery and at the end, and each the random state that it saved?",
        "one of these differs; shards and random states differ between ranks by design",
        "one of them was not recorded, or the job did not come to its end",
    ),
    "state_exact": (
        "Is the state after the recovery the right one, [by two witnesses](judging.md#state)?",
        "a step done twice gave two results; what was loaded is not what was saved; the run differs from the "
        "fault-free runs",
        "the fault-free runs differ from each other; or there is no witness at all",
    ),
    "data_exactly_once": (
        "Over the surviving history, was every sample used once, none left out?",
        "a sample twice, or never",
        "sample positions were not seen",
    ),
    "checkpoint_integrity": (
        "Was every committed checkpoint whole, of one group, loadable, and one always there after the first?",
        "one was published before every rank had staged its part, mixes groups, lacks files, could not be loaded, or "
        "was [seen on disk](judging.md#checkpoints-on-disk) damaged, altered or missing; ranks loaded different ones; "
        "the last one was removed",
        "none was committed; the checkpoint folder could not be read; or it cannot be told whether one that was loaded "
        "or seen damaged had been committed",
    ),
    "memory_flat": (
        "Did a process grow by at most `objective.memory_growth` for [each restart that it lived "
        "through](judging.md#memory)?",
        "more, in the worst rank",
        "fewer than three restarts inside one process, or a rank's memory was not measured while it trained",
    ),
    "no_residue": (
        "Five seconds after its end, had the *job* left no processes, shared memory, ports or temporary files?",
        "something was left",
        "not measured, not readable, or the job was stopped by us or ended from outside",
    ),
    "job_finished": (
        "Did the job end by itself with status 0 and all steps done by every rank?",
        "it ended early or with another status, hung after a fault, or stayed after all ranks had done all steps",
        "it was stopped by us or from outside, or died before any fault had fired",
    ),
}


ALL_OF_IT = ObjectivePlan(
    recovered_by=("in_job",),
    detection_time_s=1.0,
    parts_s={"init": 1.0},
    restarts=Restarts(in_job=1),
    lost_steps=20,
    state_close=1e-3,
    memory_growth_bytes=1 << 24,
    blamed=True,
)
NOTHING_MAY_RESTART = ObjectivePlan(recovered_by=("none",))


def checks() -> str:
    """One table of what each asks, one of when it is asked and what it needs."""
    same_names("checks", WORDS, (spec.name for spec in REGISTRY))
    meaning = table(
        ("check", "asks", "fails when", "unknown when"),
        ((code(spec.name), *WORDS[spec.name]) for spec in REGISTRY),
    )
    asking = table(("check", "asked", "core", "needs"), (_asking(spec) for spec in REGISTRY))
    return f"{meaning}\n\n## When they are asked, and what they need\n\n{asking}"


def _asking(spec: CheckSpec) -> tuple[str, str, str, str]:
    needs = ", ".join(words for source, words in SOURCES.items() if source in spec.needs)
    return code(spec.name), asked(spec), "yes" if spec.core else "", needs


def asked(spec: CheckSpec) -> str:
    """In words, found by asking the check itself about plans of each kind."""
    trainer, command = JobPlan(run="trainer"), JobPlan(command=("train",))
    fault = FaultPlan(name="f", fault="process.kill", params={}, ranks=(0,), at=At(step=20))
    plans = [Plan(scenario="s", job=job, faults=faults) for job in (trainer, command) for faults in ((), (fault,))]
    on_demand = spec.is_asked(Plan(scenario="s", job=command, faults=(fault,), objective=ALL_OF_IT))
    if all(spec.is_asked(plan) for plan in plans):
        return "always"
    if all(spec.is_asked(plan) == bool(plan.faults) for plan in plans):
        shrugged_off = Plan(scenario="s", job=trainer, faults=(fault,), objective=NOTHING_MAY_RESTART)
        return "with faults" + ("" if spec.is_asked(shrugged_off) else ", unless the job must not need recovery")
    if all(spec.is_asked(plan) == (plan.job.run == "trainer") for plan in plans):
        return "with the reference trainer" + ("; else where the objective asks for it" if on_demand else "")
    if on_demand and not any(spec.is_asked(plan) for plan in plans):
        return "where the objective asks for it"
    raise SystemExit(f"check {spec.name} is asked in a way that docs/reference/checks.py has no words for")
