"""The one writer of a run's ledger: `python -m chaos.guard.watchdog`, a process that outlives the controller.

Writes intents, undoes on request, by time limit, when the controller ends (end of file) and when it hangs (missed
beats). Small and quick to start: no torch, no chaoslib. Knows no faults.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from chaos.clock import Clock, RealClock
from chaos.errors import Broken, CannotCreate, ChaosError, Refused
from chaos.guard.custody import Custody
from chaos.guard.home import Lock, RunFolder
from chaos.guard.ledger import Entry, LedgerWriter
from chaos.guard.silence import BEAT_S, Silence
from chaos.guard.wire import Lines, encode, error_fields
from chaos.model.undo import Undo, Undone
from chaos.system.proc import boot_id
from chaos.system.undo import Undoer

LOOK_S = 0.1  # how late a time limit may be noticed
LOCK_WAIT_S = 2.0  # somebody who asks whether we live holds our lock for a moment
RETRIES = 5  # of what could not be undone after the controller's end; then it is `heal`'s
RETRY_EVERY_S = 2.0
SWEEPS_AFTER_HANG = 3  # one per beat: a controller that wakes up may still finish the harm it was about to do
SURVIVED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class Watchdog:
    """`send` takes one message for the controller and never blocks nor fails."""

    def __init__(
        self, custody: Custody, send: Callable[[dict[str, Any]], None], clock: Clock, beat_s: float = BEAT_S
    ) -> None:
        self._custody = custody
        self._send = send
        self._clock = clock
        self._silence = Silence(beat_s)
        self._heard_ns = clock.monotonic_ns()
        self._abandoned = False
        self._sweeps_left = SWEEPS_AFTER_HANG
        self._next_try_ns: dict[str, int] = {}  # of entries past their time limit
        self.finished = False

    def hear(self, message: dict[str, Any]) -> None:
        """One message of the controller."""
        self._silence.heard()
        if self._abandoned and message.get("ask") == "beat" and self._sweeps_left:
            self._sweeps_left -= 1
            self._in_thread(self._undo_again)
        self._heard_ns = self._clock.monotonic_ns()
        answer = {
            "open": self._open,
            "undo": lambda m: self._in_thread(self._undo, m),
            "undo_all": lambda m: self._in_thread(self._undo_all, m),
            "close": self._close,
            "beat": lambda m: self._reply(m, {}),
            "finish": self._finish,
        }.get(str(message.get("ask")))
        if answer is None:
            self._reply(message, error_fields(Broken(f"the watchdog knows no {message.get('ask')!r}")))
        else:
            self._guarded(answer, message)

    def look(self) -> None:
        """To be called several times a second: time limits, and whether the controller still beats."""
        now_ns = self._clock.monotonic_ns()
        for entry in self._custody.overdue():
            if now_ns >= self._next_try_ns.get(entry.id, 0):
                self._next_try_ns[entry.id] = now_ns + int(RETRY_EVERY_S * 1e9)
                self._in_thread(self._undo_overdue, entry)
        if self._silence.is_hung(now_ns) and not self._abandoned:
            self._abandoned = True
            self._in_thread(self._abandon)

    def controller_ended(self) -> bool:
        """Undoes all that is open; true when nothing is left open."""
        for attempt in range(RETRIES):
            if attempt:
                self._clock.sleep(RETRY_EVERY_S)
            self._custody.undo_all(why="controller_ended")
            if not self._custody.open_entries():
                return True
        return False

    def _open(self, message: dict[str, Any]) -> None:
        if self._abandoned:
            raise Refused(
                "no new harm: the controller gave no sign for too long and everything was undone",
                remedy="start the run anew on a machine that is less loaded",
            )
        undo = msgspec.convert(message["undo"], Undo)
        entry = self._custody.open(undo, message.get("fault"), message.get("limit_s"))
        self._reply(message, {"entry": msgspec.to_builtins(entry)})

    def _undo(self, message: dict[str, Any]) -> None:
        since_ns = message.get("silent_since_ns")
        undone = self._custody.undo(message["entry"], why="asked", silent_since_ns=since_ns)
        self._reply(message, self._results({message["entry"]: undone}))

    def _undo_all(self, message: dict[str, Any]) -> None:
        self._reply(message, self._results(self._custody.undo_all(why="asked")))

    def _close(self, message: dict[str, Any]) -> None:
        undone = self._custody.close(message["entry"], message["how"])
        self._reply(message, self._results({message["entry"]: undone}))

    def _finish(self, message: dict[str, Any]) -> None:
        self.finished = not self._custody.open_entries()
        self._reply(message, {"clean": self.finished})

    def _undo_overdue(self, entry: Entry) -> None:
        self._notice("time_limit", {entry.id: self._custody.undo(entry.id, why="time_limit")})

    def _abandon(self) -> None:
        self._notice("controller_hung", self._custody.undo_all(why="controller_hung", silent_since_ns=self._heard_ns))

    def _undo_again(self) -> None:
        self._notice("controller_back", self._custody.undo_all(why="controller_back", again=True, silent_since_ns=0))

    def _results(self, undone: dict[str, Undone]) -> dict[str, Any]:
        return {
            "undone": {entry_id: msgspec.to_builtins(result) for entry_id, result in undone.items()},
            "open": [entry.id for entry in self._custody.open_entries()],
        }

    def _notice(self, why: str, undone: dict[str, Undone]) -> None:
        self._send({"notice": why, **self._results(undone)})

    def _reply(self, message: dict[str, Any], fields: dict[str, Any]) -> None:
        self._send({"id": message.get("id"), **fields})

    def _in_thread(self, act: Callable[..., None], *arguments: Any) -> None:
        """What takes its time must not keep us from time limits and beats."""
        threading.Thread(target=self._guarded, args=(act, *arguments), daemon=True).start()

    def _guarded(self, act: Callable[..., None], *arguments: Any) -> None:
        message = arguments[0] if arguments and isinstance(arguments[0], dict) else {}
        try:
            act(*arguments)
        except ChaosError as problem:
            self._reply(message, error_fields(problem))
        except Exception as problem:  # a defect of ours must not end the one who undoes
            self._reply(message, error_fields(Broken(f"the watchdog failed: {problem!r}")))


def watch(watchdog: Watchdog, pipe: int) -> None:
    """Serves until the controller ends or asks us to."""
    lines = Lines()
    while not watchdog.finished:
        ready, _, _ = select.select([pipe], [], [], LOOK_S)
        if ready:
            data = os.read(pipe, 65536)
            if not data:
                return
            for message in lines.feed(data):
                watchdog.hear(message)
        watchdog.look()


def main(arguments: list[str]) -> int:
    """`FOLDER BEAT_S`: serves one run; 0 when its ledger is clean at the end."""
    _become_hard_to_kill()
    folder = RunFolder(path=Path(arguments[0]))
    send = _sender(1)
    clock = RealClock()
    try:
        lock = _take_lock(folder.lock, clock)
        boot = boot_id()
        ledger = LedgerWriter(folder.ledger, boot_id=boot, clock=clock)
        ledger.began(folder.run_id)
    except ChaosError as problem:
        send(error_fields(problem))
        return problem.exit_status
    custody = Custody(ledger=ledger, undoer=Undoer(clock=clock), clock=clock, boot_id=boot)
    watchdog = Watchdog(custody, send, clock, beat_s=float(arguments[1]))
    send({"ready": os.getpid()})
    watch(watchdog, 0)
    clean = watchdog.finished or watchdog.controller_ended()
    if not watchdog.finished:
        _leave_copy(folder)
    ledger.close()
    lock.release()
    return 0 if clean else 4


def _become_hard_to_kill() -> None:
    """What ends the controller's process group, or memory pressure, must not end us."""
    for number in SURVIVED:
        signal.signal(number, signal.SIG_IGN)
    try:
        Path("/proc/self/oom_score_adj").write_text("-1000")
    except OSError:
        return  # only root may; then we are as likely to be chosen as any small process


def _take_lock(path: Path, clock: Clock) -> Lock:
    end_ns = clock.monotonic_ns() + int(LOCK_WAIT_S * 1e9)
    while clock.monotonic_ns() < end_ns:
        try:
            if lock := Lock.take(path):
                return lock
        except OSError as problem:
            raise CannotCreate(f"the watchdog's lock cannot be made: {path}: {problem.strerror}") from None
        clock.sleep(0.02)
    raise Refused(f"another watchdog holds {path}", remedy="wait for that run to end, or use another run id")


def _sender(pipe: int) -> Callable[[dict[str, Any]], None]:
    # A controller that hangs does not read: we must not wait for it. It finds a gap in our answers instead.
    os.set_blocking(pipe, False)
    lock = threading.Lock()

    def send(message: dict[str, Any]) -> None:
        with lock:
            try:
                os.write(pipe, encode(message))
            except (BlockingIOError, BrokenPipeError):
                return

    return send


def _leave_copy(folder: RunFolder) -> None:
    """The controller cannot copy the ledger into its run directory any more: we do, so that the run can be judged."""
    record = folder.record()
    if record is not None:
        try:
            shutil.copyfile(folder.ledger, Path(record.run_dir) / "ledger.jsonl")
        except OSError as problem:
            print(f"the ledger was not copied to the run directory: {problem}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
