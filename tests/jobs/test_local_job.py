"""A job on this host: its command line, its environment, its start, and what is kept of its end."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest

from chaos.errors import Broken, CannotCreate, JobMisbehaved, ScenarioInvalid
from chaos.history.writer import life_of
from chaos.jobs import shipped
from chaos.jobs.local import LocalJob
from chaos.model.plan import JobPlan

MARKS = {
    "NVRX_CHAOS_RUN": "run-7", "NVRX_CHAOS_DIR": "/r", "NVRX_CHAOS_SOCKET": "/s", "NVRX_CHAOS_TOKEN": "t",
}  # fmt: skip
TELL = (
    "import json, os; print(json.dumps({'env': dict(os.environ), 'sid': os.getsid(0), 'pid': os.getpid(),"
    " 'stdin': os.readlink('/proc/self/fd/0')}))"
)


@pytest.fixture
def start(tmp_path):
    """Starts a job, waits for its end, and gives it back."""
    (tmp_path / "logs").mkdir()

    def start(*words, env=None, run=None):
        job = LocalJob(JobPlan(command=words or None, run=run, env=env or {}), tmp_path, MARKS)
        job.start()
        job._process.wait(30)
        return job

    return start


def told(job):
    return json.loads(job.log_path.read_text())


def test_the_trainers_settings_become_its_flags(tmp_path):
    args = {
        "checkpoint_every": 20,
        "seed": 0,
        "quiet": True,
        "loud": False,
        "data": None,
        "lr": 0.25,
        "data_name": "x y",
    }
    plan = JobPlan(run="trainer", ranks_per_node=4, steps=60, recovery=("in_process", "in_job"), shrink=True, args=args)
    assert LocalJob(plan, tmp_path, MARKS).command() == [
        sys.executable, "-m", "trainer", "--ranks", "4", "--steps", "60", "--recovery", "in_process,in_job",
        "--out", str(tmp_path / "job"), "--shrink", "--checkpoint-every", "20", "--data-name", "x y", "--lr", "0.25",
        "--quiet", "--seed", "0",
    ]  # fmt: skip


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}])
def test_a_list_or_mapping_cannot_become_a_flag(tmp_path, value):
    with pytest.raises(ScenarioInvalid, match=r"job\.args\.sizes"):
        LocalJob(JobPlan(run="trainer", args={"sizes": value}), tmp_path, MARKS).command()


def test_a_command_of_the_users_own_stays_as_it_is(tmp_path):
    words = ("python", "train.py", "--x", "$HOME; rm")
    assert LocalJob(JobPlan(command=words, args={"ignored": 1}), tmp_path, MARKS).command() == list(words)


def test_the_job_carries_our_marks_and_no_older_ones(start, monkeypatch):
    monkeypatch.setenv("NVRX_CHAOS_RUN", "an outer run")
    monkeypatch.setenv("NVRX_CHAOS_HOME", "/elsewhere")
    env = told(start(sys.executable, "-c", TELL))["env"]
    assert {name: value for name, value in env.items() if name.startswith("NVRX_CHAOS_")} == MARKS


def test_the_users_environment_reaches_the_job_but_cannot_take_its_marks(start):
    env = told(start(sys.executable, "-c", TELL, env={"MINE": "1", "NVRX_CHAOS_RUN": "x", "NVRX_CHAOS_TOKEN": "y"}))[
        "env"
    ]
    assert env["MINE"] == "1" and {name: env[name] for name in MARKS} == MARKS


@pytest.mark.parametrize("env", [{}, {"PYTHONPATH": "/mine:/yours"}])
def test_the_job_loads_us_at_its_start_then_finds_our_package_and_the_users_folders_after_it(start, monkeypatch, env):
    monkeypatch.setenv("PYTHONPATH", "/outer")
    path = told(start(sys.executable, "-c", TELL, env=env))["env"]["PYTHONPATH"].split(":")
    ours = [str(shipped.start_folder()), str(shipped.package_root())]
    assert path == [*ours, *env.get("PYTHONPATH", "/outer").split(":")]


def test_a_folder_called_trainer_where_the_user_stands_is_not_started_instead_of_ours(tmp_path, monkeypatch):
    (tmp_path / "logs").mkdir()
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "__main__.py").write_text("print('the wrong one')")
    monkeypatch.chdir(tmp_path)
    job = LocalJob(JobPlan(run="trainer", args={"no_such_setting": 1}), tmp_path, MARKS)
    job.start()
    assert job._process.wait(60) == 2
    assert "no-such-setting" in job.log_path.read_text() and "wrong one" not in job.log_path.read_text()


def test_the_job_has_a_session_of_its_own_and_no_standard_input(start):
    job = start(sys.executable, "-c", TELL)
    seen = told(job)
    assert seen["sid"] == seen["pid"] == job.pid != os.getsid(0) and seen["stdin"] == "/dev/null"


def test_a_started_job_has_a_life(tmp_path):
    (tmp_path / "logs").mkdir()
    job = LocalJob(JobPlan(command=(sys.executable, "-c", "import time; time.sleep(60)")), tmp_path, MARKS)
    assert (job.pid, job.life, job.poll()) == (None, None, None)
    pid = job.start()
    assert job.pid == pid and job.life == life_of(pid) and job.poll() is None
    os.kill(pid, signal.SIGTERM)
    job._process.wait(30)
    assert job.poll() == -signal.SIGTERM


@pytest.mark.parametrize("word", ["no-such-command-anywhere", "/", "/etc/passwd"])
def test_a_command_that_cannot_be_run_names_itself_and_the_way_out(start, word):
    with pytest.raises(JobMisbehaved, match=f"{word}: ") as caught:
        start(word, "--flag")
    assert "job.command" in str(caught.value)


def test_a_log_that_cannot_be_written_is_an_output_error(tmp_path):
    with pytest.raises(CannotCreate, match=r"job\.log"):
        LocalJob(JobPlan(command=("true",)), tmp_path, MARKS).start()


def test_the_last_lines_of_a_job_that_died_are_kept(start):
    job = start(sys.executable, "-u", "-c", "for n in range(50): print('line', n)\nraise SystemExit('it broke')")
    assert job.last_lines(3) == ["line 48", "line 49", "it broke"] and job.poll() == 1


def test_only_the_end_of_a_huge_log_is_read_and_bytes_that_are_no_text_do_no_harm(start):
    job = start(sys.executable, "-c", r"import os; os.write(1, b'x' * 100_000 + b'\n\xff end\n')")
    lines = job.last_lines()
    assert lines[-1] == "\ufffd end" and len("".join(lines)) <= 16384


def test_a_job_without_a_log_has_no_last_lines(tmp_path):
    assert LocalJob(JobPlan(command=("true",)), tmp_path, MARKS).last_lines() == []


def test_the_shipped_trainer_is_found_where_the_package_is():
    assert (shipped.trainer_root() / "trainer" / "__main__.py").is_file()
    assert (shipped.package_root() / "chaos" / "__init__.py").is_file()


def test_in_a_wheel_the_trainer_lies_inside_the_package(tmp_path, monkeypatch):
    inside = tmp_path / "chaos" / "_share" / "trainer"
    inside.mkdir(parents=True)
    (inside / "__main__.py").touch()
    monkeypatch.setattr(shipped, "_PACKAGE", tmp_path / "chaos")
    assert shipped.trainer_root() == tmp_path / "chaos" / "_share"


def test_a_start_that_is_missing_is_a_defect_of_ours_with_a_way_out(tmp_path, monkeypatch):
    assert (shipped.start_folder() / "sitecustomize.py").is_file()
    monkeypatch.setattr(shipped, "_PACKAGE", tmp_path / "chaos")
    with pytest.raises(Broken, match="install nvrx-chaos again"):
        shipped.start_folder()


def test_a_missing_trainer_is_a_defect_of_ours_with_a_way_out(tmp_path, monkeypatch):
    monkeypatch.setattr(shipped, "_PACKAGE", tmp_path / "chaos")
    with pytest.raises(Broken, match="install nvrx-chaos again"):
        shipped.trainer_root()
