"""Where a job keeps its checkpoints, as far as we know its layout."""

from __future__ import annotations

from chaos.jobs.local import LocalJob
from chaos.model.plan import JobPlan


def test_the_reference_trainers_are_in_the_folder_that_it_is_given(tmp_path):
    job = LocalJob(JobPlan(run="trainer"), tmp_path, {})
    out = job.command()[job.command().index("--out") + 1]
    assert str(job.checkpoint_folder) == f"{out}/checkpoints"


def test_those_of_a_job_of_your_own_are_nowhere_that_we_know(tmp_path):
    assert LocalJob(JobPlan(command=("python", "train.py")), tmp_path, {}).checkpoint_folder is None
