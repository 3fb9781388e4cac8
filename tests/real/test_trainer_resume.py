"""The reference trainer for real: two ranks under ft_launcher, stopped, killed or failing, then exact to the bit.

The witness is the last checkpoint: its parts hold weights, optimizer, schedule, random state and data
position, and all of them must be those of a run that was never interrupted.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from trainer import config
from trainer.__main__ import environment as trainer_environment
from trainer.__main__ import launcher_command

pytestmark = pytest.mark.real

REPOSITORY = Path(__file__).parents[2]
HELPERS = REPOSITORY / "tests" / "trainer"
STEPS, EVERY = 60, 10
FAULT_STEP = 37  # in the last third of an interval: seven steps are done twice
LONGEST_S = 120.0  # a job takes about ten seconds; this is for a machine that is busy
RESIDUE_S = 5.0


@dataclass
class Job:
    """One start of the trainer, with a mark in its environment by which its processes can be found."""

    folder: Path
    recovery: str
    fault: str | None = None
    mark: str = field(default_factory=lambda: secrets.token_hex(8))
    process: subprocess.Popen[bytes] | None = None

    @property
    def arguments(self) -> list[str]:
        return [
            "--out", str(self.folder / "out"), "--metrics", str(self.folder / "metrics"), "--recovery", self.recovery,
            "--steps", str(STEPS), "--checkpoint-every", str(EVERY),
        ]  # fmt: skip

    def start(self) -> None:
        temporary = self.folder / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "TRAINER_TEST_MARK": self.mark,
            "TMPDIR": str(temporary),
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(HELPERS)]),
        }
        command = [sys.executable, "-m", "trainer", *self.arguments]
        if self.fault is not None:
            environment |= trainer_environment(config.parse(self.arguments))
            environment |= {"FAULT": self.fault, "FAULT_MARKER": str(self.folder / "fired")}
            command = launcher_command(config.parse(self.arguments), self.arguments)
            command[command.index("trainer.train")] = "faulty_rank"
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=self.folder)

    def finish(self) -> int:
        assert self.process is not None
        return self.process.wait(LONGEST_S)

    def run(self) -> Job:
        self.start()
        assert self.finish() == 0, self.log()[-3000:]
        return self

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def losses(self) -> dict[int, list[str]]:
        """Loss by step, once for each time the step was done."""
        found: dict[int, list[str]] = defaultdict(list)
        path = self.folder / "metrics"
        for line in path.read_text().splitlines() if path.exists() else []:
            record = json.loads(line)
            found[record["step"]].append(record["loss"])
        return dict(found)

    def wait_for_step(self, step: int) -> None:
        ends_s = time.monotonic() + LONGEST_S
        while step not in self.losses():
            assert time.monotonic() < ends_s, self.log()[-3000:]
            time.sleep(0.02)

    def last_state(self) -> list[dict[str, str]]:
        """For each rank: digests of what its part of the last checkpoint holds, its random state among them."""
        with warnings.catch_warnings():  # torch brings a package that warns when it is imported
            warnings.simplefilter("ignore", FutureWarning)
            import torch

            from trainer import state
        folder = self.folder / "out" / "checkpoints" / f"step-{STEPS:06d}"
        captured = [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(2)]
        return [state.digest(each) for each in captured]

    def processes(self) -> list[str]:
        wanted = f"TRAINER_TEST_MARK={self.mark}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and wanted in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
        return found

    def residue(self) -> list[str]:
        """What is still there `RESIDUE_S` after the end."""
        ends_s = time.monotonic() + RESIDUE_S
        while True:
            left = self.processes() + [str(path) for path in (self.folder / "tmp").iterdir()]
            if not left or time.monotonic() > ends_s:
                return left
            time.sleep(0.1)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return Job(tmp_path_factory.mktemp("whole"), "in_process,in_job").run()


@pytest.fixture
def started() -> Iterator[list[Job]]:
    """Jobs of a test; whatever happens, their launchers are ended."""
    jobs: list[Job] = []
    yield jobs
    for job in jobs:
        if job.process is not None and job.process.poll() is None:
            job.process.terminate()
            job.process.wait(LONGEST_S)


def assert_same_end(job: Job, uninterrupted: Job) -> None:
    wanted = {step: losses[0] for step, losses in uninterrupted.losses().items()}
    assert sorted(wanted) == list(range(STEPS))
    for step, losses in job.losses().items():
        assert set(losses) == {wanted[step]}, f"step {step}"
    assert sorted(job.losses()) == list(range(STEPS))
    assert job.last_state() == uninterrupted.last_state()


def done_twice(job: Job) -> list[int]:
    return sorted(step for step, losses in job.losses().items() if len(losses) > 1)


def test_a_run_leaves_nothing_behind_and_does_each_step_once(uninterrupted):
    assert uninterrupted.residue() == []
    assert done_twice(uninterrupted) == []


def test_a_run_stopped_and_started_anew_ends_as_if_never_stopped(tmp_path, uninterrupted, started):
    job = Job(tmp_path, "in_job")
    started.append(job)
    job.start()
    job.wait_for_step(FAULT_STEP)
    job.process.terminate()
    assert job.finish() != 0
    assert job.residue() == []
    job.run()
    assert_same_end(job, uninterrupted)
    assert len(done_twice(job)) >= 1


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("fault", "recovery", "line"),
    [
        ("exception", "in_process", "restart_ex: HealthCheckPassed()"),
        ("SIGKILL", "in_job", "will restart worker group"),
    ],
)
def test_a_rank_that_fails_is_brought_back_to_the_same_bits(tmp_path, uninterrupted, fault, recovery, line, rank):
    job = Job(tmp_path, recovery, fault=f"{fault}:{rank}:{FAULT_STEP}").run()
    assert (tmp_path / "fired").exists()
    assert line in job.log()
    assert_same_end(job, uninterrupted)
    assert set(done_twice(job)) >= set(range(30, FAULT_STEP))
    assert job.residue() == []


def test_a_stopped_rank_is_found_and_brought_back(tmp_path, uninterrupted):
    job = Job(tmp_path, "in_job", fault=f"SIGSTOP:1:{FAULT_STEP}").run()
    assert "Did not get subsequent heartbeat" in job.log()
    assert_same_end(job, uninterrupted)
    assert job.residue() == []


def test_without_a_layer_a_failed_rank_fails_the_job(tmp_path):
    job = Job(tmp_path, "", fault=f"SIGKILL:1:{FAULT_STEP}")
    job.start()
    assert job.finish() == 1
    assert job.residue() == []
