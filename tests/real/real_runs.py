"""Runs of the real command in a place of its own, and what the machine shows of them afterwards.

Everything started here carries one mark in its environment, down to the last daemon of a job, so that whatever
is left can be found and ended without asking the code under test.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.history.follow import Follower
from chaos.model.events import Event

REPOSITORY = Path(__file__).resolve().parents[2]
QUICK = REPOSITORY / "scenarios" / "quick"
BROKEN = Path(__file__).resolve().parent / "broken"
COMMAND = [sys.executable, "-c", "from chaos.cli.main import main; main()"]
TEST_MARK = "CHAOS_REAL_TEST"
LONGEST_S = 150.0  # one run takes about ten seconds; this is for a machine that is busy
REPEATS_MAX = 3  # of a run that a busy machine left undecided
GONE_WITHIN_S = 2.0  # a process that was killed needs a moment to vanish from the table

# The job of scenarios/quick that the launcher brings back: the same one, so that its fault-free runs are made once.
IN_JOB = {"run": "trainer", "ranks_per_node": 2, "steps": 120, "recovery": ["in_job"], "args": {"checkpoint_every": 20}}
NO_CONTROLS = {"drop": ["state_exact"]}  # for tests of something else: saves two fault-free runs


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A command that has ended."""

    status: int
    out: str
    err: str

    @property
    def runs(self) -> list[dict[str, Any]]:
        """What `run --json` printed: {run_dir, verdict} of each run."""
        assert self.out, f"status {self.status}, nothing printed: {self.err[-3000:]}"
        found: list[dict[str, Any]] = json.loads(self.out)["runs"]
        return found

    @property
    def verdict(self) -> dict[str, Any]:
        """The verdict of the last run: the one asked for, after its fault-free runs."""
        found: dict[str, Any] = self.runs[-1]["verdict"]
        return found


@dataclass(kw_only=True)
class Running:
    """A `run` that goes on while the test looks at it."""

    process: subprocess.Popen[bytes]
    out: Path
    place: Place
    files: tuple[Path, Path]
    _follower: Follower | None = None
    seen: list[Event] = field(default_factory=list)

    @property
    def run_dir(self) -> Path:
        """The run's folder, once there is one; these runs have no fault-free runs beside them."""
        found = [path for path in self.out.glob("*/*") if path.is_dir() and path.parent.name != "controls"]
        assert len(found) == 1, f"{len(found)} run folders; {self.text()}"
        return found[0]

    def text(self) -> str:
        return self.files[1].read_text(errors="replace")[-3000:]

    def wait_for(
        self, wanted: str | Callable[[Event], bool], *, within_s: float = 90.0, job_goes_on: bool = False
    ) -> Event:
        """The first event of that kind (or that the function accepts) in the history, as it is written."""
        accepts = wanted if callable(wanted) else lambda event: event.kind == wanted
        end_s = time.monotonic() + within_s
        while True:
            found = next((event for event in self.seen if accepts(event)), None)
            if found is not None:
                return found
            assert time.monotonic() < end_s, f"{wanted} was not seen; {self.kinds()}; {self.text()}"
            over = self.process.poll() is not None and not job_goes_on
            assert not over or self._look(), f"ended before {wanted}: {self.kinds()}; {self.text()}"
            self._look()

    def _look(self) -> bool:
        """Takes in what is new; whether there was any."""
        time.sleep(0.005)
        if self._follower is None:
            folders = list(self.out.glob("*/*/history"))
            self._follower = Follower(folders[0]) if folders else None
        new = self._follower.poll() if self._follower is not None else []
        self.seen += new
        return bool(new)

    def kinds(self) -> list[str]:
        """What happened last, for the message of a test that fails."""
        return [event.kind for event in self.seen if event.kind not in ("phase_entered", "step_done")][-12:]

    def controller(self) -> int:
        """Pid of the process that runs this run."""
        record = json.loads((self.place.home / self.run_dir.name / "run.json").read_text())
        return int(record["controller"]["pid"])

    def watchdog(self) -> int:
        """Pid of the process that outlives it."""
        found = [pid for pid in marked(self.place.mark) if b"chaos.guard.watchdog" in command_of(pid)]
        assert len(found) == 1, found
        return found[0]

    def job(self) -> list[int]:
        """Processes of the job, daemonised ones too."""
        wanted = f"NVRX_CHAOS_RUN={self.run_dir.name}".encode()
        return [pid for pid in marked(self.place.mark) if wanted in environment_of(pid)]

    def finish(self, *, within_s: float = LONGEST_S) -> Ended:
        status = self.process.wait(within_s)
        out, err = (path.read_text(errors="replace") for path in self.files)
        return Ended(status=status, out=out, err=err)


@dataclass(kw_only=True)
class Place:
    """A home and an output folder of one test. `out` may be shared, so that fault-free runs are made once."""

    folder: Path
    out: Path
    mark: str = field(default_factory=lambda: secrets.token_hex(8))
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.folder / "h"

    def cli(self, *arguments: str | Path, under: Sequence[str] = (), timeout: float = LONGEST_S) -> Ended:
        """Runs the command to its end."""
        process, files = self._popen(arguments, under=under)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end within {timeout} s: {files[1].read_text()[-3000:]}") from None
        return Ended(status=status, out=files[0].read_text(), err=files[1].read_text())

    def run(self, *scenarios: Path, under: Sequence[str] = (), timeout: float = LONGEST_S) -> Ended:
        """`run` with this place's output folder, verdicts as JSON. `under`: a command that starts it."""
        words = ["run", *scenarios, "--out", self.out, "--quiet", "--json"]
        return self.cli(*words, under=under, timeout=timeout)

    def run_until_decided(self, scenario: Path, *, timeout: float = LONGEST_S) -> Ended:
        """`run`; what only a busy machine left undecided is run again, what failed is not."""
        ended = self.run(scenario, timeout=timeout)
        for _ in range(REPEATS_MAX):
            if not undecided_by_noise(ended.verdict):
                break
            ended = self.run(scenario, timeout=timeout)
        return ended

    def repeat(self, verdict: Mapping[str, Any]) -> Ended:
        """Runs again what a verdict is about, with the command that it names."""
        program, *words = shlex.split(verdict["repeat"])
        assert program == "nvrx-chaos"
        return self.cli(*words, "--out", self.out, "--quiet", "--json", timeout=600)

    def start(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> Running:
        """`run` without waiting for its end."""
        process, files = self._popen(["run", *arguments, "--out", self.out, "--quiet", "--json"], env=env)
        return Running(process=process, out=self.out, place=self, files=files)

    def scenario(self, name: str, **keys: Any) -> Path:
        """Writes a scenario file (JSON is YAML) and gives its path."""
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps({"schema": "nvrx-chaos/scenario/1", "name": name, **keys}, indent=1))
        return path

    def _popen(
        self, arguments: Sequence[str | Path], *, env: Mapping[str, str] | None = None, under: Sequence[str] = ()
    ) -> tuple[subprocess.Popen[bytes], tuple[Path, Path]]:
        number = len(self.started)
        files = (self.folder / f"stdout.{number}", self.folder / f"stderr.{number}")
        environment = {**os.environ, "NVRX_CHAOS_HOME": str(self.home), TEST_MARK: self.mark, **(env or {})}
        command = [*under, *COMMAND, *map(str, arguments)]
        with open(files[0], "wb") as out, open(files[1], "wb") as err:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment, cwd=REPOSITORY
            )
        self.started.append(process)
        return process, files

    # afterwards

    def left(self, *, within_s: float = GONE_WITHIN_S) -> list[str]:
        """What still runs of all that was started here, after a moment of grace."""
        end_s = time.monotonic() + within_s
        while pids := sorted({*marked(self.mark), *holding_files_in(self.folder, self.out)}):
            if time.monotonic() > end_s:
                return [f"{pid}: {command_of(pid).decode(errors='replace')[:150]}" for pid in pids]
            time.sleep(0.05)
        return []

    def open_entries(self) -> list[dict[str, Any]]:
        """What `heal --list` says of this home."""
        ended = self.cli("heal", "--list", "--json")
        assert ended.status == 0, ended.err
        found: list[dict[str, Any]] = json.loads(ended.out)["heal"]["runs"]
        return found

    def end(self) -> None:
        """Whatever still runs is ended, each process by its id."""
        for process in self.started:
            if process.poll() is None:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(30)
        for pid in {*marked(self.mark), *holding_files_in(self.folder, self.out)}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.started:
            process.wait(10)


def marked(mark: str) -> list[int]:
    """Live processes that were started under a test's mark, directly or not."""
    wanted = f"{TEST_MARK}={mark}".encode()
    found = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    return [pid for pid in found if wanted in environment_of(pid) and state_of(pid) not in ("Z", "X", "")]


def holding_files_in(*folders: Path) -> list[int]:
    """Live processes that hold a file there open: one that gave itself another title has lost its mark with it."""
    below = tuple(f"{folder}/" for folder in folders)
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError):
            for number in os.listdir(f"/proc/{entry}/fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{entry}/fd/{number}").startswith(below):
                        found.append(int(entry))
                        break
    return [pid for pid in found if pid != os.getpid()]


def environment_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return b""


def state_of(pid: int) -> str:
    """One letter: R, S, T (stopped), Z; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def events(run_dir: Path) -> list[Event]:
    """The whole history of a run that has ended."""
    return Follower(run_dir / "history").poll()


def check(verdict: Mapping[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in verdict["checks"] if each["name"] == name)
    return found


def outcomes(verdict: Mapping[str, Any]) -> dict[str, str]:
    return {each["name"]: each["outcome"] for each in verdict["checks"]}


def undecided_by_noise(verdict: Mapping[str, Any]) -> bool:
    """Whether nothing but the machine's own noise stands between this run and a pass."""
    open_checks = [each for each in verdict["checks"] if each["outcome"] in ("fail", "unknown")]
    return bool(open_checks) and all(
        each["outcome"] == "unknown" and "the machine withheld" in each["observed"] for each in open_checks
    )


def all_words(verdict: Mapping[str, Any]) -> str:
    """Everything that a verdict says to people."""
    parts = [verdict["sentence"], verdict["remedy"], *(each["observed"] for each in verdict["checks"])]
    return "\n".join(parts)


def traceback_in(ended: Ended) -> bool:
    return re.search(r"Traceback \(most recent call last\)", ended.out + ended.err) is not None


@contextlib.contextmanager
def cpu_hogs(count: int) -> Iterator[None]:
    """Processes that do nothing but take the CPU from a job."""
    hogs = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
