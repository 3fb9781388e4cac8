"""A controller in a process of its own, which a test may kill or stop: guard, job, one rank held, one order armed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from system_jobs import TABLE, ends_within, life_of, wait_until

from chaos.guard.dirty import run_states
from chaos.guard.home import RunFolder
from chaos.guard.ledger import read_ledger

CONTROLLER = """
import json, os, signal, sys, time
from pathlib import Path
import msgspec
sys.path.insert(0, sys.argv[1])
from system_jobs import Job
from chaos.guard.guard import Guard
from chaos.model.undo import Undo
from chaos.system.processes import PidfdKiller, ProcessTable
home, run_dir, mark, keep, limit_s, beat_s = sys.argv[2:]
table = ProcessTable()
guard = Guard.start(mark, Path(run_dir), home=Path(home), beat_s=float(beat_s))
guard.intend(Undo(verb="stop_job", args={"mark": mark, "keep": keep == "keep"}))
guard.intend(Undo(verb="remove_path", args={"path": home + "/socket"}))
Path(home, "socket").touch()
job = Job(mark)
lives = [table.life(pid) for pid in job.ranks]
record = msgspec.to_builtins
guard.intend(Undo(verb="disarm", args={"life": record(lives[1]), "lease_s": 3.0}), fault="later")
guard.intend(Undo(verb="resume_process", args={"life": record(lives[0])}), fault="hang", limit_s=float(limit_s))
PidfdKiller(table).send(lives[0], signal.SIGSTOP, mark=mark)
print(json.dumps({"watchdog": guard.watchdog_pid, "job": job.pids, "held": job.ranks[0], "other": job.ranks[1]}),
      flush=True)
for line in sys.stdin:
    if line.strip() == "intend":
        try:
            print(guard.intend(Undo(verb="remove_path", args={"path": "/nowhere"})), flush=True)
        except Exception as problem:
            print(type(problem).__name__, flush=True)
"""


class Controller:
    def __init__(self, home: Path, run_dir: Path, mark: str, *, keep: str, limit_s: float, beat_s: float) -> None:
        self.home, self.mark = home, mark
        helpers = str(Path(__file__).resolve().parents[1] / "system")
        arguments = [helpers, str(home), str(run_dir), mark, keep, str(limit_s), str(beat_s)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", CONTROLLER, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        said = json.loads(self.process.stdout.readline())
        self.watchdog: int = said["watchdog"]
        self.job: list[int] = said["job"]
        self.held, self.other = life_of(said["held"]), life_of(said["other"])
        self.watchdog_life = life_of(self.watchdog)
        wait_until(lambda: TABLE.is_stopped(self.held), 2, "the rank is stopped")

    @property
    def folder(self) -> RunFolder:
        return RunFolder(path=self.home / self.mark)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def kill_watchdog(self) -> None:
        os.kill(self.watchdog, signal.SIGKILL)
        assert ends_within(self.watchdog, 5)

    def ask(self, line: str) -> str:
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def is_held(self) -> bool:
        return bool(TABLE.is_stopped(self.held))

    def job_is_gone(self) -> bool:
        return not any(row.mark == self.mark and row.state not in "ZX" for row in TABLE.snapshot())

    def ledger_is_clean(self) -> bool:
        content = read_ledger(self.folder.ledger)
        return len(content.entries) == 4 and not content.open_entries and not content.unreadable

    def is_dirty(self) -> bool:
        return any(state.dirty for state in run_states(self.home))

    def end(self) -> None:
        """Controller first, then the watchdog has nobody to serve; whatever is left is killed, and seen to be gone."""
        if self.process.poll() is None:
            self.kill()
        self.process.stdin.close()
        self.process.stdout.close()
        if TABLE.is_alive(self.watchdog_life):
            os.kill(self.watchdog, signal.SIGKILL)
        assert ends_within(self.watchdog, 5)


@contextlib.contextmanager
def controller(
    home: Path, run_dir: Path, mark: str, *, keep: str = "stop", limit_s: float = 60, beat_s: float = 1.0
) -> Iterator[Controller]:
    subject = Controller(home, run_dir, mark, keep=keep, limit_s=limit_s, beat_s=beat_s)
    try:
        yield subject
    finally:
        subject.end()
