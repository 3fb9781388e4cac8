"""The guard of one run, as the session uses it: intent first, then harm, then the undo, always measured.

The ledger belongs to the watchdog while that lives; when it died or hangs the guard takes over in this process,
undoes with the same code, and lets no new harm begin. Knows no faults.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import msgspec

from chaos.clock import Clock, RealClock
from chaos.errors import Broken, CannotWrite, ChaosError, Refused
from chaos.guard.channel import Channel, WatchdogGone
from chaos.guard.custody import Custody
from chaos.guard.home import Lock, RunFolder, RunRecord, home_path, make_run_folder
from chaos.guard.ledger import Entry, LedgerWriter, read_ledger
from chaos.guard.silence import BEAT_S
from chaos.model.undo import Undo, Undone
from chaos.system.proc import boot_id
from chaos.system.processes import this_life
from chaos.system.undo import Undoer

OPEN_WAIT_S = 5.0  # for one line on disk: past this the disk or the watchdog hangs, and no harm may be done
UNDO_WAIT_S = 15.0  # the longest undo is stopping a job
FINISH_WAIT_S = 5.0


class Guard:
    """Safe to call from several threads. Make one with `Guard.start`, end it with `finish`."""

    def __init__(self, folder: RunFolder, run_dir: Path, *, clock: Clock, beat_s: float) -> None:
        self.folder = folder
        self._run_dir = run_dir
        self._pid = os.getpid()
        self._clock = clock
        self._lock = threading.RLock()
        self._entries: dict[str, Entry] = {}
        self._own: Custody | None = None  # set once we have taken over
        self._own_lock: Lock | None = None
        self._own_ledger: LedgerWriter | None = None
        self._abandoned = ""
        self._finished = False
        self._channel = Channel(folder, on_notice=self._noticed, beat_s=beat_s)

    @staticmethod
    def start(
        run_id: str,
        run_dir: Path,
        *,
        home: Path | None = None,
        clock: Clock | None = None,
        beat_s: float = BEAT_S,
    ) -> Guard:
        """Makes the run's folder and starts its watchdog. Raises CannotCreate, CannotWrite or UsageError."""
        clock = clock or RealClock()
        record = RunRecord(
            run_id=run_id,
            run_dir=str(Path(run_dir).absolute()),
            controller=this_life(),
            started_wall_s=clock.wall_s(),
        )
        folder = make_run_folder(home or home_path(), record)
        try:
            return Guard(folder, Path(record.run_dir), clock=clock, beat_s=beat_s)
        except ChaosError:
            with contextlib.suppress(OSError):
                folder.remove()  # nothing was begun: a folder left here would only puzzle
            raise

    @property
    def watchdog_pid(self) -> int:
        """It is one of us: its CPU time is not foreign, and it is no residue of the job."""
        return self._channel.pid

    def intend(self, undo: Undo, fault: str | None = None, limit_s: float | None = None) -> str:
        """The entry's id, once the intent is on disk: only then may the harm be done.

        Raises CannotWrite when it cannot be put on disk, Refused when no new harm may begin.
        """
        self._refuse_new_harm()
        try:
            reply = self._channel.ask(
                "open", timeout_s=OPEN_WAIT_S, undo=msgspec.to_builtins(undo), fault=fault, limit_s=limit_s
            )
        except WatchdogGone:
            self._take_over()
            raise _no_watchdog() from None
        entry = msgspec.convert(reply["entry"], Entry)
        with self._lock:
            self._entries[entry.id] = entry
        return entry.id

    def undo(self, entry_id: str, *, silent_since_ns: int | None = None) -> Undone:
        """Takes it back and measures; asked again it gives the same result. Raises Broken for an unknown entry.
        `silent_since_ns`: of an order, since when its rank cannot have heard of us (default: now)."""
        entry = self._entries.get(entry_id)
        if entry is None:
            raise Broken(f"there is no ledger entry {entry_id!r}")
        if entry.undone is not None:
            return entry.undone
        self._only_in_its_process()
        try:
            reply = self._ask("undo", UNDO_WAIT_S, entry=entry_id, silent_since_ns=silent_since_ns)
        except Broken as problem:
            # A defect of the watchdog's: told as what it means, an entry that is not proven undone.
            return Undone(how="failed", measured=False, detail=problem.message)
        if reply is None:
            return self._taken_over().undo(entry_id, why="watchdog_gone", silent_since_ns=silent_since_ns)
        return self._results(reply)[entry_id]

    def undo_all(self) -> dict[str, Undone]:
        """Takes back all that is open, each measured; what fails is told as `failed`."""
        many = max(1, len(self.open_entries()))
        reply = self._ask("undo_all", UNDO_WAIT_S + many)
        if reply is None:
            return self._taken_over().undo_all(why="watchdog_gone")
        return self._results(reply)

    def close_entry(self, entry_id: str, how: str = "done") -> None:
        """For an order whose end the rank itself told (it fired, or was taken back). Any other entry is closed only
        by undoing it: Broken."""
        if self._ask("close", OPEN_WAIT_S, entry=entry_id, how=how) is None:
            self._taken_over().close(entry_id, how)

    def entries(self) -> tuple[Entry, ...]:
        """Every entry of this run, with how it was closed."""
        with self._lock:
            return self._own.entries() if self._own is not None else tuple(self._entries.values())

    def open_entries(self) -> tuple[Entry, ...]:
        """What is not proven undone."""
        return tuple(entry for entry in self.entries() if entry.is_open)

    def alive(self) -> bool:
        """Whether the watchdog runs, answers, and has not given us up. If not: undo, stop, begin no new harm."""
        return self._own is None and not self._abandoned and self._channel.alive()

    def copy_ledger(self, run_dir: Path | None = None) -> Path:
        """Copies the ledger into the run directory. Raises CannotWrite."""
        target = (run_dir or self._run_dir) / "ledger.jsonl"
        try:
            shutil.copyfile(self.folder.ledger, target)
        except OSError as problem:
            raise CannotWrite(f"the ledger cannot be copied to {target}: {problem}") from None
        return target

    def finish(self) -> bool:
        """Ends the watchdog; true when nothing is open. Then the ledger is copied and the run's folder removed."""
        self._only_in_its_process()
        if self._finished:
            return not self.open_entries()
        self._finished = True
        clean = self._end_watchdog() if self._own is None else not self._own.open_entries()
        self._let_go()
        if clean:
            try:
                self.copy_ledger()
                self.folder.remove()
            except (CannotWrite, OSError):
                return clean  # the folder stays: clean, and `heal` removes it
        return clean

    def _end_watchdog(self) -> bool:
        try:
            clean = bool(self._channel.ask("finish", timeout_s=FINISH_WAIT_S)["clean"])
        except (WatchdogGone, ChaosError):
            self._take_over()
            return not self._taken_over().open_entries()
        # Not clean: it is left to try again for a while by itself, and then to `heal`.
        self._channel.hang_up(FINISH_WAIT_S if clean else 0.0)
        return clean

    def _let_go(self) -> None:
        with self._lock:
            if self._own_ledger is not None:
                self._own_ledger.close()
                self._own_ledger = None
            if self._own_lock is not None:
                self._own_lock.release()

    def _refuse_new_harm(self) -> None:
        self._only_in_its_process()
        if self._abandoned:
            raise Refused(
                f"no new harm: the watchdog has undone everything ({self._abandoned})",
                remedy="start the run anew on a machine that is less loaded",
            )
        if self._finished:
            raise Broken("the guard has ended: nothing can be intended any more")
        if not self.alive():
            raise _no_watchdog()

    def _only_in_its_process(self) -> None:
        if os.getpid() != self._pid:
            raise Broken("the guard was used in a forked child: only the process that started it may undo")

    def _ask(self, ask: str, timeout_s: float, **fields: Any) -> dict[str, Any] | None:
        """The watchdog's reply; None when it is gone, and we have taken over."""
        self._only_in_its_process()
        if self._own is not None:
            return None
        try:
            reply = self._channel.ask(ask, timeout_s=timeout_s, **fields)
        except WatchdogGone:
            self._take_over()
            return None
        self._results(reply)
        return reply

    def _noticed(self, message: dict[str, Any]) -> None:
        if message["notice"].startswith("controller_"):
            self._abandoned = message["notice"]
        self._results(message)

    def _results(self, reply: dict[str, Any]) -> dict[str, Undone]:
        """Takes in what a reply says of entries. One that is measured and yet open could not be journalled."""
        results: dict[str, Undone] = msgspec.convert(reply["undone"], dict[str, Undone])
        with self._lock:
            for entry_id, undone in results.items():
                entry = self._entries.get(entry_id)
                if entry is not None and entry_id not in reply["open"]:
                    self._entries[entry_id] = msgspec.structs.replace(entry, undone=undone)
        return results

    def _taken_over(self) -> Custody:
        self._take_over()
        assert self._own is not None
        return self._own

    def _take_over(self) -> None:
        """The watchdog is gone: we become the one writer, as far as its lock and its ledger can be had."""
        with self._lock:
            if self._own is not None:
                return
            self._channel.kill()  # one that only hangs must not write beside us when it wakes up
            boot = boot_id()
            self._own_ledger = self._reopened_ledger(boot)
            self._own = Custody(
                ledger=self._own_ledger,
                undoer=Undoer(clock=self._clock),
                clock=self._clock,
                boot_id=boot,
                entries=self._known_entries(),
            )

    def _reopened_ledger(self, boot: str) -> LedgerWriter | None:
        try:
            self._own_lock = Lock.take(self.folder.lock)
            if self._own_lock is None:
                return None
            ledger = LedgerWriter(self.folder.ledger, boot_id=boot, clock=self._clock)
            ledger.began(self.folder.run_id)
        except (OSError, CannotWrite):
            return None
        return ledger

    def _known_entries(self) -> list[Entry]:
        """What is on disk, which may be more than we heard of, and what we know ourselves."""
        try:
            on_disk = {entry.id: entry for entry in read_ledger(self.folder.ledger).entries}
        except CannotWrite:
            on_disk = {}
        return list({**self._entries, **on_disk}.values())


def _no_watchdog() -> Refused:
    return Refused(
        "no new harm: the watchdog of this run has ended or hangs, so nobody would undo it if we ended too",
        remedy="start the run anew; `nvrx-chaos heal` shows what is left open, if anything",
    )
