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
    # how it ends
    # ours
)  # fmt: skip
