"""Under what a control is cached: everything that a repeat of the job depends on, and nothing else."""

from __future__ import annotations

import shutil

import msgspec
import pytest

from chaos import controls
from chaos.model.plan import At, FaultPlan, JobPlan, LimitsPlan, ObjectivePlan, Plan

KILL = FaultPlan(name="kill", fault="process.kill", params={"signal": "KILL"}, ranks=(1,), at=At(step=5))


def plan(**changes):
    fields = {"scenario": "kill-worker", "seed": 7, "job": JobPlan(run="trainer", steps=60), "steady_steps": 4}
    return Plan(
        **{
            **fields,
            "faults": (KILL,),
            "objective": ObjectivePlan(recovered_by=("in_job",), recovery_time_s=8.0, step_time_ratio=2.0),
            "limits": LimitsPlan(timeout_s=90.0, ranks_down=2, faults=3),
            **changes,
        }
    )


@pytest.fixture
def root(tmp_path):
    """A shipped job of two files."""
    folder = tmp_path / "one" / "trainer"
    (folder / "inner").mkdir(parents=True)
    (folder / "train.py").write_text("a = 1\n")
    (folder / "inner" / "data.py").write_text("b = 2\n")
    return tmp_path / "one"


def key(job, root):
    return controls.cache_key(job, root)


def test_a_control_is_the_same_job_without_faults_that_must_need_no_recovery():
    control = controls.control_plan(plan())
    assert control.job == plan().job and control.faults == () and control.seed == 7 and control.steady_steps == 4
    assert control.objective.recovered_by == ("none",) and control.objective.recovery_time_s is None
    assert control.limits == LimitsPlan(timeout_s=90.0)


def test_a_control_needs_no_control():
    assert "state_exact" in controls.control_plan(plan()).objective.dropped


def test_scenarios_of_one_job_share_their_controls(root, tmp_path):
    one, other = plan(), plan(scenario="hang-worker", faults=(), seed=8, limits=LimitsPlan(timeout_s=5.0))
    assert controls.folder(tmp_path, one, root) == controls.folder(tmp_path, other, root)
    assert controls.folder(tmp_path, one, root).parent == tmp_path / "controls"


@pytest.mark.parametrize(
    "change",
    [
        {"steps": 61}, {"ranks_per_node": 3}, {"recovery": ("in_job",)}, {"env": {"A": "1"}}, {"args": {"seed": 1}},
        {"launcher": "none"}, {"shrink": True},
    ],
)  # fmt: skip
def test_another_job_has_another_key(root, change):
    job = JobPlan(run="trainer", steps=60)
    assert key(job, root) != key(msgspec.structs.replace(job, **change), root)


def test_changed_code_has_another_key(root):
    before = key(JobPlan(run="trainer"), root)
    (root / "trainer" / "inner" / "data.py").write_text("b = 3\n")
    assert key(JobPlan(run="trainer"), root) != before


def test_code_that_moved_between_files_has_another_key(root):
    before = key(JobPlan(run="trainer"), root)
    (root / "trainer" / "inner" / "data.py").rename(root / "trainer" / "data.py")
    assert key(JobPlan(run="trainer"), root) != before


def test_two_sets_of_files_that_read_alike_in_a_row_have_two_keys(root):
    (root / "trainer" / "train.py").write_text("x")
    (root / "trainer" / "inner" / "data.py").write_text("trainer/train.py")
    before = key(JobPlan(run="trainer"), root)
    (root / "trainer" / "inner" / "data.py").write_text("")
    (root / "trainer" / "train.py").write_text("trainer/train.pyx")
    assert key(JobPlan(run="trainer"), root) != before


def test_a_checkout_elsewhere_keeps_its_controls(root, tmp_path):
    shutil.copytree(root, tmp_path / "two")
    assert key(JobPlan(run="trainer"), root) == key(JobPlan(run="trainer"), tmp_path / "two")


def test_files_that_are_no_code_do_not_count(root):
    before = key(JobPlan(run="trainer"), root)
    (root / "trainer" / "notes.txt").write_text("x")
    assert key(JobPlan(run="trainer"), root) == before


@pytest.mark.parametrize("folder", [True, False])
def test_other_data_has_another_key(root, tmp_path, folder):
    data = tmp_path / "data"
    if folder:
        data.mkdir()
    file = data / "a.txt" if folder else data
    file.write_text("one")
    job = JobPlan(run="trainer", args={"data": str(data)})
    before = key(job, root)
    file.write_text("two")
    assert key(job, root) != before


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "ATEN_CPU_CAPABILITY"])
def test_what_changes_the_order_of_sums_changes_the_key(root, monkeypatch, name):
    monkeypatch.setenv(name, "1")
    before = key(JobPlan(run="trainer"), root)
    monkeypatch.setenv(name, "2")
    assert key(JobPlan(run="trainer"), root) != before


def test_another_version_of_torch_has_another_key(root, monkeypatch):
    before = key(JobPlan(run="trainer"), root)
    monkeypatch.setattr(controls, "version", lambda package: "99")
    assert key(JobPlan(run="trainer"), root) != before


def test_the_script_of_a_users_own_command_counts(root, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("one")
    job = JobPlan(command=("python", str(script), "--x"))
    before = key(job, root)
    script.write_text("two")
    assert key(job, root) != before


def test_the_cpus_speed_of_the_moment_is_no_part_of_the_key(root):
    assert not any("MHz" in line or "bogomips" in line for line in controls._cpu())
    assert controls._cpu() == controls._cpu() and controls._cpu()


def test_only_runs_that_have_ended_are_controls(tmp_path):
    assert controls.run_dirs(tmp_path / "nowhere") == []
    for name in ("2-b", "1-a", "3-c"):
        (tmp_path / name).mkdir()
    for name in ("2-b", "1-a"):
        (tmp_path / name / "verdict.json").touch()
    assert [path.name for path in controls.run_dirs(tmp_path)] == ["1-a", "2-b"]
