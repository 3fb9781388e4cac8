"""The controller's end of the pipes to its watchdog: starts it, asks, beats, notices its death.

Knows no entries. Every wait has a bound, so a watchdog that hangs is found out.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos.errors import CannotCreate, ChaosError
from chaos.guard.home import RunFolder
from chaos.guard.silence import BEAT_S, MISSED_BEATS
from chaos.guard.wire import Lines, encode, raise_error
from chaos.system.processes import MARK

START_WAIT_S = 15.0  # an interpreter's start on a loaded machine
_PACKAGES = Path(__file__).resolve().parents[2]


class WatchdogGone(Exception):
    """No answer: the watchdog ended or hangs. Never leaves this room."""


class Channel:
    """Any thread may ask. `on_notice` is called by the reader's thread with what the watchdog did by itself."""

    def __init__(
        self, folder: RunFolder, *, on_notice: Callable[[dict[str, Any]], None], beat_s: float = BEAT_S
    ) -> None:
        """Starts the watchdog. Raises CannotCreate when it does not come up."""
        self._on_notice = on_notice
        self._beat_s = beat_s
        self._numbers = itertools.count(1)
        self._waiting: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}
        self._started: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._writing = threading.Lock()
        self._gone = threading.Event()
        self._heard_s = time.monotonic()
        self._process = _start(folder, beat_s)
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._beat)]
        self._threads[0].start()
        _OPEN.add(self)
        try:
            raise_error(self._started.get(timeout=START_WAIT_S))
        except (queue.Empty, ChaosError) as problem:
            self.kill()
            if isinstance(problem, ChaosError):
                raise
            raise CannotCreate(
                f"the watchdog did not start within {START_WAIT_S:g} s; its log: {_tail(folder.log)}",
                remedy="start the run anew on a machine that is less loaded",
            ) from None
        self._threads[1].start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        """Whether the watchdog runs and answers our beats."""
        if self._gone.is_set() or self._process.poll() is not None:
            return False
        return time.monotonic() - self._heard_s < MISSED_BEATS * self._beat_s

    def ask(self, ask: str, *, timeout_s: float, **fields: Any) -> dict[str, Any]:
        """The watchdog's reply. Raises the error that it carries, or WatchdogGone."""
        number = next(self._numbers)
        answer: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._waiting[number] = answer
        try:
            if self._gone.is_set():
                raise WatchdogGone
            self._write({"id": number, "ask": ask, **fields})
            reply = answer.get(timeout=timeout_s)
        except (queue.Empty, OSError, ValueError):
            raise WatchdogGone from None
        finally:
            self._waiting.pop(number, None)
        if reply.get("gone"):
            raise WatchdogGone
        raise_error(reply)
        return reply

    def hang_up(self, timeout_s: float) -> bool:
        """Closes our end and waits for the watchdog to end by itself; false when it still runs then."""
        self._gone.set()
        self._close_input()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        self._close_output()
        return True

    def kill(self) -> None:
        """Ends a watchdog that does not answer, so that somebody else can be the one writer."""
        self._gone.set()
        self._process.kill()
        self._process.wait()
        self._close_input()
        self._close_output()

    def forget_in_child(self) -> None:
        """In a forked child: lets go of our pipes, or the watchdog would not notice our end."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._gone.set()

    def _close_input(self) -> None:
        assert self._process.stdin is not None
        with self._writing, contextlib.suppress(OSError):
            self._process.stdin.close()

    def _close_output(self) -> None:
        assert self._process.stdout is not None
        if threading.current_thread() is not self._threads[0]:
            self._threads[0].join(1.0)
        self._process.stdout.close()

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with self._writing:
            self._process.stdin.write(encode(message))

    def _read(self) -> None:
        assert self._process.stdout is not None
        lines = Lines()
        pipe = self._process.stdout.fileno()
        while data := _read_some(pipe):
            self._heard_s = time.monotonic()
            for message in lines.feed(data):
                self._take(message)
        self._gone.set()
        self._started.put({"error": "CannotCreate", "message": "the watchdog ended as it started", "remedy": None})
        for answer in list(self._waiting.values()):
            answer.put({"gone": True})

    def _take(self, message: dict[str, Any]) -> None:
        if "notice" in message:
            self._on_notice(message)
        elif message.get("id") is None:
            self._started.put(message)
        elif answer := self._waiting.get(message["id"]):
            answer.put(message)

    def _beat(self) -> None:
        while not self._gone.wait(self._beat_s):
            try:
                self._write({"id": 0, "ask": "beat"})
            except (OSError, ValueError):
                return


def _read_some(pipe: int) -> bytes:
    try:
        return os.read(pipe, 65536)
    except OSError:
        return b""


def _start(folder: RunFolder, beat_s: float) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if name != MARK}
    # It must find this very package wherever it is started from, and nothing of the folder it is started in.
    paths = [str(_PACKAGES), *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    command = [sys.executable, "-P", "-m", "chaos.guard.watchdog", str(folder.path), str(beat_s)]
    try:
        with folder.log.open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                cwd="/",
                env=environment,
                start_new_session=True,
            )
    except OSError as problem:
        raise CannotCreate(f"the watchdog cannot be started: {problem}", remedy="nvrx-chaos doctor") from None


def _tail(log: Path) -> str:
    try:
        return log.read_text(errors="replace").strip()[-300:] or "empty"
    except OSError as problem:
        return str(problem)


_OPEN: weakref.WeakSet[Channel] = weakref.WeakSet()


def _forget_all() -> None:
    for channel in list(_OPEN):
        channel.forget_in_child()


os.register_at_fork(after_in_child=_forget_all)
