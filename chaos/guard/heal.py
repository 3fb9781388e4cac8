"""Carries out what dead runs left open, proves it, closes it, and removes what is clean. Leaves live runs alone."""

from __future__ import annotations

from pathlib import Path

import msgspec

from chaos.clock import Clock, RealClock
from chaos.errors import CannotWrite
from chaos.guard.custody import Custody
from chaos.guard.dirty import RunState, run_states
from chaos.guard.home import Lock
from chaos.guard.ledger import Entry, LedgerWriter, in_undo_order, read_ledger
from chaos.model.undo import Undone
from chaos.system.proc import boot_id
from chaos.system.processes import ProcessTable
from chaos.system.undo import Undoer

STARTING_S = 60.0  # a folder without a readable record may belong to a run that is just being started


class HealedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One open entry. `undone` None: only listed."""

    id: str
    what: str
    fault: str | None = None
    undone: Undone | None = None

    @property
    def healed(self) -> bool:
        return self.undone is not None and self.undone.measured


class HealedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run that had open entries. `problem`: why it is not healed as a whole, else empty."""

    run_id: str
    folder: str
    live: bool
    entries: tuple[HealedEntry, ...] = ()
    problem: str = ""


class HealReport(msgspec.Struct, frozen=True, kw_only=True):
    """`removed`: folders of clean, dead runs that were (with `dry_run`: would be) removed."""

    runs: tuple[HealedRun, ...] = ()
    removed: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def clean(self) -> bool:
        """Nothing of a dead run is left open. Live runs have open entries by right."""
        dead = [run for run in self.runs if not run.live]
        return all(not run.problem and all(entry.healed for entry in run.entries) for run in dead)


def heal(
    home: Path | None = None, *, list_only: bool = False, dry_run: bool = False, clock: Clock | None = None
) -> HealReport:
    """`list_only`: says what is open, live runs too. `dry_run`: says what would be done. Both change nothing."""
    clock = clock or RealClock()
    runs: list[HealedRun] = []
    removed: list[str] = []
    for state in run_states(home):
        if state.live or list_only or dry_run:
            if state.open_entries or state.unreadable:
                runs.append(_listed(state))
            elif dry_run and _is_old(state, clock):
                removed.append(str(state.folder.path))
            continue
        run = _heal_run(state, clock) if state.dirty else None
        if run is not None:
            runs.append(run)
        if (run is None or _is_healed(run)) and _is_old(state, clock) and _removed(state):
            removed.append(str(state.folder.path))
    return HealReport(runs=tuple(runs), removed=tuple(removed), dry_run=list_only or dry_run)


def _heal_run(state: RunState, clock: Clock) -> HealedRun:
    listed = _listed(state)
    try:
        lock = Lock.take(state.folder.lock)
        if lock is None:
            return msgspec.structs.replace(listed, live=True)  # somebody else heals it just now
    except OSError as problem:
        return msgspec.structs.replace(listed, problem=f"its lock cannot be taken: {problem}")
    try:
        return _heal_locked(state, clock)
    except CannotWrite as problem:
        return msgspec.structs.replace(listed, problem=problem.message)
    finally:
        lock.release()


def _heal_locked(state: RunState, clock: Clock) -> HealedRun:
    # Read again under the lock: what was seen before may have been closed meanwhile.
    entries = read_ledger(state.folder.ledger).entries
    was_open = [entry for entry in entries if entry.is_open]
    boot = boot_id()
    problem = state.unreadable
    ledger: LedgerWriter | None = None
    try:
        ledger = LedgerWriter(state.folder.ledger, boot_id=boot, clock=clock)
        ledger.began(state.folder.run_id)
    except CannotWrite as failure:
        problem = failure.message  # undone all the same: a full disk is no reason to leave harm in place
    custody = Custody(ledger=ledger, undoer=Undoer(clock=clock), clock=clock, boot_id=boot, entries=entries)
    results = custody.undo_all(why="heal")
    if ledger is not None:
        ledger.close()
    if not problem and any(results[entry.id].measured for entry in custody.open_entries()):
        problem = f"undone, but its ledger could not be closed: {state.folder.ledger}"
    return HealedRun(
        run_id=state.folder.run_id,
        folder=str(state.folder.path),
        live=False,
        entries=tuple(_entry(entry, results[entry.id]) for entry in in_undo_order(was_open)),
        problem=problem,
    )


def _listed(state: RunState) -> HealedRun:
    return HealedRun(
        run_id=state.folder.run_id,
        folder=str(state.folder.path),
        live=state.live,
        entries=tuple(_entry(entry, None) for entry in in_undo_order(state.open_entries)),
        problem=state.unreadable,
    )


def _entry(entry: Entry, undone: Undone | None) -> HealedEntry:
    return HealedEntry(id=entry.id, what=_in_words(entry), fault=entry.fault, undone=undone)


def _in_words(entry: Entry) -> str:
    args = entry.undo.args
    life = args.get("life") or {}
    return {
        "resume_process": f"resume pid {life.get('pid')}",
        "stop_job": "leave the job running, as asked" if args.get("keep") else f"stop the job of {args.get('mark')}",
        "remove_path": f"remove {args.get('path')}",
        "disarm": f"wait until the order of pid {life.get('pid')} has lapsed",
    }[entry.undo.verb]


def _is_healed(run: HealedRun) -> bool:
    return not run.live and not run.problem and all(entry.healed for entry in run.entries)


def _is_old(state: RunState, clock: Clock) -> bool:
    """Its controller is gone: a folder without open entries may also belong to a run that is just starting."""
    if state.live:
        return False
    record = state.folder.record()
    if record is None:
        return clock.wall_s() - state.folder.path.stat().st_mtime > STARTING_S
    return not ProcessTable().is_alive(record.controller)


def _removed(state: RunState) -> bool:
    try:
        state.folder.remove()
    except OSError:
        return False
    return True
