"""What each key of a scenario file means, in words. Values and defaults come from the schema."""

from __future__ import annotations

from chaos.scenario.check_faults import COLLECTIVE_PHASES, STEP_PHASES

# record, title, anchor of the title, first sentence
SECTIONS: tuple[tuple[str, str, str, str], ...] = (
    ("ScenarioFile", "Top level", "top-level", "The keys of the file itself."),
    ("Job", "`job`", "job", "The job under test. Exactly one of `run` and `command`."),
    ("SteadyState", "`steady_state`", "steady_state", "What counts as normal."),
    ("FaultEntry", "One entry of `faults`", "one-entry-of-faults", "One fault. It fires once, also across restarts."),
    (
        "Target", "`target`", "target",
        "Which rank is hit: `any` (drawn from `--seed`), `all`, or this mapping with exactly one of its keys.",
    ),
    (
        "When", "`at`", "at",
        "When the fault is due. Exactly one of `step`, `after` and `event`; prefer `step`, which means the same on a "
        "slow machine.",
    ),
    ("AfterPoint", "`at.point` as a mapping", "atpoint-as-a-mapping", "A moment inside a phase."),
    (
        "Objective", "`objective`", "objective",
        "What the job is held to. [checks.md](checks.md) says which check looks at which key.",
    ),
    ("RestartBounds", "`objective.restarts`", "objectiverestarts", "Upper bounds; a missing one bounds nothing."),
    ("Close", "`objective.state` as a mapping", "objectivestate-as-a-mapping", "Losses may differ a little."),
    ("CheckChoice", "`objective.checks`", "objectivechecks", "Names are those of [checks.md](checks.md)."),
    ("Limits", "`limits`", "limits", "What we may do at most."),
    (
        "KnownDefect", "`known`", "known",
        "A defect of others that is known; see [below](#failures-that-are-foreseen). All four keys are needed.",
    ),
    ("Since", "`known.since`", "knownsince", "Which versions have the defect. At least one; all given must hold."),
)  # fmt: skip

MEANING: dict[str, str] = {
    "ScenarioFile.schema": "Says what this file is. A folder runs its `*.yaml` files that carry this line.",
    "ScenarioFile.name": "Name of the scenario and of its folder under `--out`.",
    "ScenarioFile.title": "What is done, in one line; shown in reports. Claim no more than `at` delivers.",
    "ScenarioFile.why": "Which real failure this stands for.",
    "ScenarioFile.tags": "Words for people and tools.",
    "ScenarioFile.job": "The job under test.",
    "ScenarioFile.steady_state": "When the job counts as steady.",
    "ScenarioFile.faults": "What is done to the job. Empty: nothing, and the job must need no recovery.",
    "ScenarioFile.objective": "What the job is held to.",
    "ScenarioFile.limits": "Bounds of the run and of our harm.",
    "ScenarioFile.expect_failed": "Checks that must fail, because the fault makes them; see "
    "[below](#failures-that-are-foreseen).",
    "ScenarioFile.known": "Checks that fail by a defect of others.",
    "ScenarioFile.vary": "Dotted key → values. One run of each combination; see [below](#how-settings-combine).",
    "Job.run": "A shipped job: the [reference trainer](trainer.md).",
    "Job.command": "Your own job, as a list of words; see [your-own-job.md](your-own-job.md).",
    "Job.launcher": "Which launcher the job runs under.",
    "Job.where": "Where the job runs: on this host.",
    "Job.nodes": "Hosts.",
    "Job.ranks_per_node": "Ranks on the host. A `command` must start that many itself.",
    "Job.recovery": "NVRx layers that are switched on. Given to the trainer; for a `command` it says what you did.",
    "Job.shrink": "The trainer may go on with fewer ranks after an in-process restart.",
    "Job.steps": "Steps of the whole job. A `command` must do that many.",
    "Job.env": "Environment variables added to the job's.",
    "Job.args": "Settings of the [trainer](trainer.md#settings) by their names, such as `checkpoint_every: 20`.",
    "SteadyState.steps": "So many steps in a row, done by every rank: before the first fault, and again afterwards.",
    "FaultEntry.name": "How this fault is called in the run. Left out: its family, such as `process`.",
    "FaultEntry.fault": "What is done; see [faults.md](faults.md).",
    "FaultEntry.params": "The fault's own parameters; see [faults.md](faults.md).",
    "FaultEntry.target": "Which initial ranks are hit.",
    "FaultEntry.at": "When.",
    "FaultEntry.lasts": "For faults that hold: taken back after this time. Left out: held until NVRx ends the target "
    "or the run ends.",
    "Target.rank": "One rank, by the number it had when the job began.",
    "Target.ranks": "Several; `limits.ranks_down` must allow as many.",
    "When.step": "In this step, counted from 0. Not before the job is steady, not within the last "
    "2 × `steady_state.steps` steps.",
    "When.phase": "With `step`: in this phase of it. Left out: `forward`. Allowed with `step`: "
    + ", ".join(f"`{phase}`" for phase in STEP_PHASES) + ".",
    "When.point": "With `step`: where in the phase. Left out: `entry`. `in_collective`: after this rank issued the "
    "phase's first collective and before it waited for it, in "
    + ", ".join(f"`{phase}`" for phase in COLLECTIVE_PHASES)
    + ". `before_rename`, `after_rename`, `after_latest`: in `checkpoint_commit`.",
    "When.after": "So long after the job became steady.",
    "When.event": "At the first such [event](verdict.md#events) after the job became steady, told by any rank or seen "
    "from outside.",
    "AfterPoint.after": "So long after the phase was entered.",
    "Objective.recovered_by": "The layer that must have brought the job back, or a list of layers that may have. "
    "`none`: nothing may restart. Left out: not asked; without faults: `none`.",
    "Objective.clock_from": "When the recovery clock starts: at the firing, or when the fault was undone. Must be "
    "given for a fault that `lasts`, else `fired`.",
    "Objective.detection_time": "Longest time from the firing to the first word of NVRx or the job that it noticed.",
    "Objective.recovery_time": "Longest time to the first new step of every rank. Required, unless the job must not "
    "need recovery.",
    "Objective.full_recovery_time": "Longest time until the job is steady again.",
    "Objective.lost_steps": "Most steps that may be done again. Left out, for the trainer: 2 × `checkpoint_every`.",
    "Objective.restarts": "How many restarts each layer may take.",
    "Objective.parts": "Longest time of single parts of the recovery: `detection`, `teardown`, `start`, `rendezvous`, "
    "`init`, `checkpoint_load`, `first_step`.",
    "Objective.world_size": "How many ranks the job must have afterwards. `shrunk` needs `job.shrink: true`.",
    "Objective.state": "`exact`: the same bits. A mapping: losses may differ by a share.",
    "Objective.data": "Every sample once over the surviving history.",
    "Objective.step_time_ratio": "How many times as slow a step may be afterwards, by the medians.",
    "Objective.memory_growth": "How much more memory each process may have for every restart inside it, such as "
    "`16MiB`. Needs three faults at least, and `in_process`. Left out: not asked.",
    "Objective.blamed": "`right`: NVRx's own records must name a rank that was hit. Left out: not asked.",
    "Objective.checks": "Checks asked beyond the usual ones, or not asked.",
    "RestartBounds.in_process": "Restarts inside the same processes.",
    "RestartBounds.in_job": "Restarts by the launcher.",
    "Close.close": "Relative difference of the loss allowed per step.",
    "CheckChoice.add": "Asked although they are not asked by default.",
    "CheckChoice.drop": "Not asked. Core checks cannot be dropped: without them a pass would prove nothing.",
    "Limits.timeout": "Longest time of the run, counted from the start of the job.",
    "Limits.ranks_down": "How many ranks *we* may hold down at one time.",
    "Limits.nodes_down": "How many hosts we may hold down at one time.",
    "Limits.faults": "How many faults may fire in all.",
    "KnownDefect.checks": "The checks that fail by it, all or some of them. Those that are unknown because of it, too.",
    "KnownDefect.since": "The versions that have the defect, as the ranks tell them.",
    "KnownDefect.ref": "The page that tells of the defect; shown with every such run.",
    "KnownDefect.until": "The last day (UTC) on which it is counted apart. On the next day it fails runs again.",
    "Since.nvrx": "NVRx (`nvidia-resiliency-ext`).",
    "Since.torch": "PyTorch.",
    "Since.python": "Python.",
}  # fmt: skip
