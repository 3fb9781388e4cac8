"""Open entries with their ledger: writes intents, carries out undos through `system/`, journals what was measured.

Whoever is the one writer at the time works with this: the watchdog, its successor in the controller, `heal`.
Safe to call from several threads.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable

import msgspec

from chaos.clock import Clock
from chaos.errors import Broken, CannotWrite
from chaos.guard.ledger import Entry, LedgerWriter, in_undo_order
from chaos.model.undo import Undo, Undone
from chaos.system.proc import boot_ticks_now
from chaos.system.undo import Undoer


class Custody:
    """`ledger` None: nothing can be journalled any more, so entries stay open for `heal` though they are undone."""

    def __init__(
        self,
        *,
        ledger: LedgerWriter | None,
        undoer: Undoer,
        clock: Clock,
        boot_id: str,
        entries: Iterable[Entry] = (),
    ) -> None:
        self._ledger = ledger
        self._undoer = undoer
        self._clock = clock
        self._boot_id = boot_id
        self._entries = {entry.id: entry for entry in entries}
        self._numbers = itertools.count(len(self._entries) + 1)
        self._book = threading.Lock()  # entries and ledger
        self._carrying: dict[str, threading.Lock] = {}  # one undo of one entry at a time

    def open(self, undo: Undo, fault: str | None, limit_s: float | None) -> Entry:
        """Returns once it is on disk. Raises CannotWrite; then no harm may be done."""
        with self._book:
            entry = Entry(
                id=f"e{next(self._numbers)}",
                boot_id=self._boot_id,
                opened_ticks=boot_ticks_now(),
                opened_ns=self._clock.monotonic_ns(),
                undo=undo,
                fault=fault,
                limit_s=limit_s,
            )
            self._writer().opened(entry)
            self._entries[entry.id] = entry
        return entry

    def undo(self, entry_id: str, *, why: str, silent_since_ns: int | None = None, again: bool = False) -> Undone:
        """Carries it out unless it is closed already, measures, journals. `again`: even when it is closed."""
        entry = self.entry(entry_id)
        with self._book:
            carrying = self._carrying.setdefault(entry_id, threading.Lock())
        with carrying:
            entry = self.entry(entry_id)
            if entry.undone is not None and not again:
                return entry.undone
            self._note(entry_id, "undo_began", why=why)
            # After a reboot every process is younger than the entry, whatever its ticks say.
            opened_ticks = entry.opened_ticks if entry.boot_id == self._boot_id else 0
            undone = self._undoer.carry_out(entry.undo, opened_ticks=opened_ticks, silent_since_ns=silent_since_ns)
            if not undone.measured:
                self._note(entry_id, "undo_failed", detail=undone.detail)
                return undone
            return self._closed(entry, undone)

    def undo_all(self, *, why: str, silent_since_ns: int | None = None, again: bool = False) -> dict[str, Undone]:
        """Every open entry, in the order of `in_undo_order`; one that fails does not keep the next from its turn."""
        todo = [entry for entry in self.entries() if entry.is_open or again]
        # Orders lapse side by side: the lease of each counts from now, not from when its turn comes.
        since_ns = self._clock.monotonic_ns() if silent_since_ns is None else silent_since_ns
        return {
            entry.id: self.undo(entry.id, why=why, silent_since_ns=since_ns, again=again)
            for entry in in_undo_order(todo)
        }

    def close(self, entry_id: str, how: str) -> Undone:
        """For an order only, whose end the rank itself told: it fired, or it was taken back. Nothing else may be
        closed on somebody's word."""
        entry = self.entry(entry_id)
        if entry.undo.verb != "disarm":
            raise Broken(f"entry {entry_id} ({entry.undo.verb}) can only be closed by undoing it")
        if entry.undone is not None:
            return entry.undone
        return self._closed(entry, Undone(how=how, measured=True, detail="told by the controller"))

    def entry(self, entry_id: str) -> Entry:
        """Raises Broken when there is none."""
        try:
            return self._entries[entry_id]
        except KeyError:
            raise Broken(f"there is no ledger entry {entry_id!r}") from None

    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries.values())

    def open_entries(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries() if entry.is_open)

    def overdue(self) -> list[Entry]:
        """Open entries whose time limit has passed."""
        now_ns = self._clock.monotonic_ns()
        return [
            entry
            for entry in self.open_entries()
            if entry.limit_s is not None and now_ns >= entry.opened_ns + int(entry.limit_s * 1e9)
        ]

    def _closed(self, entry: Entry, undone: Undone) -> Undone:
        with self._book:
            try:
                self._writer().closed(entry.id, undone)
            except CannotWrite as problem:
                detail = f"{undone.detail}; but {problem.message.partition(';')[0]}, so its entry stays open"
                return msgspec.structs.replace(undone, detail=detail)
            self._entries[entry.id] = msgspec.structs.replace(entry, undone=undone)
        return undone

    def _note(self, entry_id: str, what: str, **detail: str) -> None:
        with self._book:
            try:
                self._writer().step(entry_id, what, **detail)
            except CannotWrite:
                return  # a note for people: never a reason not to undo

    def _writer(self) -> LedgerWriter:
        if self._ledger is None:
            raise CannotWrite("the ledger has no writer any more", remedy="nvrx-chaos heal")
        return self._ledger
