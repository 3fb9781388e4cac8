"""Broken jobs: the reference trainer with one defect planted in it, run once. What each defect does: `planted/`."""

from __future__ import annotations

from mutant import broken_job

MUTANTS = (
    # what is put back
    broken_job("optimizer_not_restored", "a restart begins with a new optimizer", must_fail="state_exact"),
    broken_job("schedule_not_restored", "a restart begins the learning rate's schedule again", must_fail="state_exact"),
    broken_job(
        "random_state_not_restored", "a restart does not put the random state back",
        must_fail=("state_exact", "ranks_agree"),
    ),
    broken_job(
        "replicated_state_differs", "what all ranks have alike differs on one rank after a restart",
        must_fail=("state_exact", "ranks_agree"),
    ),
    # checkpoints
    broken_job(
        "rank_loads_older_step", "one rank goes on from an older checkpoint than its peers",
        must_fail=("checkpoint_integrity", "state_exact", "ranks_agree"),
    ),
    broken_job(
        "part_one_save_behind", "one rank's part of each checkpoint is from the save before",
        must_fail=("state_exact", "ranks_agree"),
    ),
    broken_job(
        "half_a_part_accepted", "a torn part of a checkpoint is accepted and loaded", must_fail="state_exact"
    ),
    broken_job(
        "published_early", "`latest` names a checkpoint before all its parts are on disk",
        must_fail="checkpoint_integrity",
    ),
    broken_job(
        "pruned_before_commit", "the old checkpoints go before the new one is there", must_fail="checkpoint_integrity"
    ),
    broken_job("begins_anew", "a restart begins at step 0 and does not say why", must_fail="lost_work"),
    # the steps after a restart
    broken_job(
        "batch_skipped", "a restart leaves a batch out", must_fail="data_exactly_once", may_fail="state_exact"
    ),
    broken_job(
        "batch_repeated", "a restart reads a batch a second time", must_fail="data_exactly_once",
        may_fail="state_exact",
    ),
    broken_job(
        "step_not_trained", "a step is reported, and the optimizer was never called",
        must_fail="data_exactly_once", may_fail="state_exact",
    ),
    broken_job("slow_after_restart", "recovered, and much slower than before", must_fail="steady_after"),
    broken_job("fails_once_more", "one restart too many: it fails again by itself", must_fail="restart_budget"),
    broken_job(
        "never_trains_again", "restarts again and again and never does a step",
        must_fail=("recovered_in_time", "job_finished"),
    ),
    # how it ends
    broken_job("child_left_behind", "a rank leaves a process behind", must_fail="no_residue"),
    broken_job(
        "thread_left_behind", "a rank leaves a thread behind, and its process never ends",
        must_fail="job_finished",
    ),
    broken_job("leaves_without_a_word", "the launcher says 0, and one rank never finished", must_fail="job_finished"),
    broken_job(
        "memory_grows", "each restart keeps the memory of the one before", twin="exceptions", must_fail="memory_flat",
    ),
    # ours
    broken_job(
        "signal_not_sent", "a fault that is reported as fired and does nothing",
        must_fail=("fault_took_effect", "recovered_by"),
    ),
)  # fmt: skip
