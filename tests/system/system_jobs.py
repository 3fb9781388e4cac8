"""Small real jobs without torch, and fakes of the process table. Every helper ends what it started, and proves it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import msgspec

from chaos.model.identity import Life, ProcessInfo
from chaos.system.processes import DEAD_STATES, MARK, ProcessTable

TABLE = ProcessTable()
PYTHON = [sys.executable, "-S", "-E"]
BOOT = "11111111-2222-3333-4444-555555555555"

# A launcher with two ranks, and a monitor that left its session and its parent, as NVRx's do.
JOB = """
import json, os, signal, subprocess, sys, time
def daemon():
    ready, told = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(told, str(os.getpid()).encode())
            time.sleep(300)
        os._exit(0)
    os.wait()
    return int(os.read(ready, 20))
if sys.argv[1:] == ["stubborn"]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
monitor = daemon()
sleeper = [sys.executable, "-S", "-E", "-c", "import time; time.sleep(300)"]
ranks = [subprocess.Popen(sleeper).pid for _ in range(2)]
print(json.dumps({"launcher": os.getpid(), "ranks": ranks, "monitor": monitor}), flush=True)
time.sleep(300)
"""


def wait_until(claim, within_s: float, what: str) -> None:
    """Looks every 10 ms; fails with `what` when it does not become true."""
    end = time.monotonic() + within_s
    while not claim():
        assert time.monotonic() < end, f"not within {within_s} s: {what}"
        time.sleep(0.01)


def marked(mark: str) -> list[ProcessInfo]:
    return [row for row in TABLE.snapshot() if row.mark == mark and row.state not in DEAD_STATES]


def kill_marked(mark: str) -> None:
    """Clean-up of a test: whatever carries its mark is gone afterwards."""
    for row in marked(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(row.pid, signal.SIGKILL)
    wait_until(lambda: not marked(mark), 5, f"processes of {mark} are gone")


def ends_within(pid: int, seconds: float) -> bool:
    """Whether the process is gone, or goes in that time. Waits for the event itself."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


class Job:
    def __init__(self, mark: str, *arguments: str) -> None:
        self.mark = mark
        self.process = subprocess.Popen(
            [*PYTHON, "-c", JOB, *arguments],
            env={**os.environ, MARK: mark},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        pids = json.loads(self.process.stdout.readline())
        self.launcher: int = pids["launcher"]
        self.ranks: list[int] = pids["ranks"]
        self.monitor: int = pids["monitor"]

    @property
    def pids(self) -> list[int]:
        return [self.launcher, *self.ranks, self.monitor]

    def end(self) -> None:
        kill_marked(self.mark)
        self.process.wait()
        self.process.stdout.close()


@contextlib.contextmanager
def sleeper(mark: str | None = None, *, command: list[str] | None = None, **changes) -> Iterator[subprocess.Popen]:
    """A child that sleeps; ends with the test."""
    environment = {name: value for name, value in os.environ.items() if name != MARK}
    if mark is not None:
        environment[MARK] = mark
    command = command or [*PYTHON, "-c", "import time; time.sleep(300)"]
    with subprocess.Popen(command, env=environment, **changes) as process:
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def life_of(pid: int) -> Life:
    life = TABLE.life(pid)
    assert life is not None
    return life


def life_record(life: Life) -> dict:
    return msgspec.to_builtins(life)


def fake_life(pid: int, start_ticks: int = 500, boot_id: str = BOOT) -> Life:
    return Life(boot_id=boot_id, pid_namespace=1, pid_inside=pid, pid=pid, start_ticks=start_ticks)


def row(
    pid: int, *, ppid: int = 1, mark: str | None = None, state: str = "S", start_ticks: int = 500, command: str = "job"
) -> ProcessInfo:
    return ProcessInfo(
        life=fake_life(pid, start_ticks), ppid=ppid, state=state, command=(command,), mark=mark, environment={}
    )


class FakeTable:
    """`doors.ProcessReader` over rows given."""

    def __init__(self, *rows: ProcessInfo) -> None:
        self.rows = {row.pid: row for row in rows}

    def pids(self):
        return sorted(self.rows)

    def snapshot(self):
        return list(self.rows.values())

    def info(self, pid):
        return self.rows.get(pid)

    def is_alive(self, life):
        found = self.rows.get(life.pid)
        return found is not None and found.life == life and found.state not in DEAD_STATES

    def is_stopped(self, life):
        return self.rows[life.pid].state == "T" if self.is_alive(life) else None
