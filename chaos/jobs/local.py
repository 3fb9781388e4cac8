"""A job on this host: starts the launcher in a session of its own, with our mark in its environment.

Stopping is the guard's work (undo verb `stop_job`): its entry is on disk before the job starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from chaos.errors import JobMisbehaved, ScenarioInvalid
from chaos.files import output_error
from chaos.history.writer import life_of
from chaos.jobs.shipped import package_root, start_folder, trainer_root
from chaos.model.plan import JobPlan

LOG_NAME = "job.log"
OURS = "NVRX_CHAOS_"


class LocalJob:
    """The job of one run. `life` is the launcher's, once started."""

    def __init__(self, job: JobPlan, run_dir: Path, environment: Mapping[str, str]) -> None:
        """`environment`: the NVRX_CHAOS_* variables that mark the job and lead its ranks to us."""
        self._job = job
        self._run_dir = run_dir
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self.life: str | None = None
        self.log_path = run_dir / "logs" / LOG_NAME

    def command(self) -> list[str]:
        """The command line that starts the job."""
        job = self._job
        if job.command is not None:
            return list(job.command)
        command = [sys.executable, "-m", "trainer", "--ranks", str(job.ranks_per_node), "--steps", str(job.steps)]
        command += ["--recovery", ",".join(job.recovery), "--out", str(self._run_dir / "job")]
        if job.shrink:
            command.append("--shrink")
        for name, value in sorted(job.args.items()):
            command += _flag(name, value)
        return command

    def start(self) -> int:
        """Starts it and returns the launcher's pid. Raises JobMisbehaved when the command cannot be run."""
        command = self.command()
        try:
            log = open(self.log_path, "ab")  # noqa: SIM115 - closed right after the start
        except OSError as error:
            raise output_error(self.log_path, error) from error
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._full_environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise JobMisbehaved(
                f"the job cannot be started: {command[0]}: {error.strerror or error}",
                remedy="check job.command in the scenario",
            ) from error
        finally:
            log.close()
        self.life = life_of(self._process.pid)
        return self._process.pid

    def poll(self) -> int | None:
        """Exit code once the launcher has ended (negative: signal), else None."""
        return None if self._process is None else self._process.poll()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def checkpoint_folder(self) -> Path | None:
        """Where the reference trainer keeps its checkpoints; None for a job whose layout nobody here knows."""
        return None if self._job.run is None else self._run_dir / "job" / "checkpoints"

    def last_lines(self, count: int = 20) -> list[str]:
        """The end of the job's log, for people: why it died."""
        try:
            with open(self.log_path, "rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(0, log.tell() - 16384))
                text = log.read().decode("utf-8", "replace")
        except OSError:
            return []
        return text.splitlines()[-count:]

    def _full_environment(self) -> dict[str, str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        environment.update(self._job.env)
        # Ours first: any other `sitecustomize` is found from it, and loaded after it.
        paths = [str(start_folder())]
        paths += [str(trainer_root())] if self._job.run is not None else []
        paths += [str(package_root())]
        if environment.get("PYTHONPATH"):
            paths.append(environment["PYTHONPATH"])
        environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
        if self._job.run is not None:
            # Else a folder `trainer` where the user stands would be started instead of ours.
            environment["PYTHONSAFEPATH"] = "1"
        environment.update(self._environment)
        return environment


def _flag(name: str, value: object) -> list[str]:
    flag = "--" + name.replace("_", "-")
    if value is True:
        return [flag]
    if value is False or value is None:
        return []
    if isinstance(value, (list, dict)):
        raise ScenarioInvalid(f"job.args.{name}: a list or mapping cannot become a flag of the trainer")
    return [flag, str(value)]
