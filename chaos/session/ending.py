"""The end of a run, step by step: each is tried whatever became of the one before, and all is measured."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos.doors import ProcessKiller, ProcessReader
from chaos.guard.guard import Guard
from chaos.history import manifest
from chaos.history.writer import Writer
from chaos.injector.injector import Injector
from chaos.injector.server import RankServer
from chaos.observer.observer import Observer
from chaos.session.evidence import Captured, Evidence, drop_offers
from chaos.session.settings import RESIDUE_AFTER_S
from chaos.session.sheets import Subject
from chaos.system.residue import Residue, measure
from chaos.system.subreaper import reap_orphans

RESIDUE_LOOK_S = 0.25


class Ending:
    """`left_open` names what is not proven undone; `errors` what went wrong on our side."""

    def __init__(
        self,
        *,
        run_dir: Path,
        run_id: str,
        guard: Guard,
        writer: Writer,
        observer: Observer,
        injector: Injector,
        ranks: RankServer,
        table: ProcessReader,
        killer: ProcessKiller,
    ) -> None:
        self._run_dir, self._run_id = run_dir, run_id
        self._guard, self._writer, self._observer = guard, writer, observer
        self._injector, self._ranks, self._table, self._killer = injector, ranks, table, killer
        self.left_open: list[str] = []
        self.errors: list[Exception] = []

    def keep_evidence(self, why: str) -> None:
        """A wait ran out: where every rank stands, before anything is undone, stopped or ended."""
        self.attempt(lambda: self._capture(why))

    def undo_faults(self) -> None:
        """Held faults first, then armed orders."""
        self.attempt(self._injector.undo_held)

    def measure_residue(self, shared_memory_before: frozenset[str]) -> None:
        """Looks until nothing is left, at most RESIDUE_AFTER_S after the job's end; writes what is left then."""
        self.attempt(lambda: self._write_residue(shared_memory_before))

    def stop_job(self, entry: str | None) -> None:
        """Stops what is left of the job, measured."""
        if entry is not None:
            self.attempt(lambda: self._guard.undo(entry))
        # Daemonised processes of the job came to us when their parent ended: zombies until we reap them.
        self.attempt(lambda: reap_orphans(self._observer.processes.ended_orphans()))

    def settle(self) -> None:
        """Ends the injector and the sources, and takes back everything that is still open."""
        self.attempt(self._injector.finish)
        self.attempt(self._ranks.close)
        self.attempt(self._observer.stop)
        self.attempt(self._guard.undo_all)
        if self._observer.failure is not None:
            self.errors.append(self._observer.failure)

    def write_down(self, lives: list[dict[str, Any]]) -> None:
        """The last event, the ledger's copy, the manifest; then lets the watchdog go."""
        entries = self.attempt(self._guard.open_entries)
        measured = entries is not None
        self.left_open = [entry.id for entry in entries] if entries is not None else ["the ledger could not be read"]
        self.attempt(
            lambda: self._writer.write_about(
                "run_concluded",
                {
                    "open_entries": len(entries) if measured else None,
                    "measured": measured,
                    "entries": [str(entry.id) for entry in self._guard.entries()],
                },
                life=None,
            )
        )
        self.attempt(lambda: self._guard.copy_ledger(self._run_dir))
        self.attempt(lambda: drop_offers(self._run_dir))
        self._writer.close()
        self.attempt(lambda: manifest.write(self._run_dir, run_id=self._run_id, lives=lives))
        self.attempt(self._guard.finish)

    def attempt(self, step: Callable[[], Any]) -> Any:
        """Carries out one step; an error is kept and said, and the next steps are tried all the same."""
        try:
            return step()
        except Exception as error:
            self.errors.append(error)
            print(f"ending of {self._run_id}: {error!r}", file=sys.stderr)
            return None

    def _capture(self, why: str) -> None:
        ranks = self._observer.rank_lives().values()
        subjects = [Subject(who=str(rank), life=life, rank=rank) for life, rank in ranks if rank is not None]
        subjects.sort(key=lambda subject: subject.rank or 0)
        launcher = self._observer.processes.launcher
        if launcher is not None and self._table.is_alive(launcher):
            subjects.append(Subject(who="launcher", life=launcher))
        evidence = Evidence(
            self._run_dir,
            subjects,
            send=lambda life, number: self._killer.send(life, number, mark=self._run_id),
            ask=self._ranks.ask_evidence,
        )
        try:
            found = evidence.capture()
        except Exception as error:  # a defect of ours here must not spoil a run that is judged without it
            found = Captured(failed=(repr(error),))
        fields = {"files": list(found.files), "stands": list(found.stands), "failed": list(found.failed), "why": why}
        self._writer.write_about("evidence_captured", fields, life=None)

    def _write_residue(self, shared_memory_before: frozenset[str]) -> None:
        began = time.monotonic()
        while True:
            residue = self._look(shared_memory_before)
            after_s = time.monotonic() - began
            if residue.nothing or after_s >= RESIDUE_AFTER_S:
                break
            time.sleep(RESIDUE_LOOK_S)
        self._writer.write_about(
            "residue_measured",
            {
                "processes": list(residue.processes),
                "shared_memory": list(residue.shared_memory),
                "ports": list(residue.ports),
                "temporary_files": list(residue.temporary_files),
                "after_s": round(after_s, 3),
                "readable": residue.readable,
                "unreadable": list(residue.unreadable),
            },
            life=None,
        )

    def _look(self, shared_memory_before: frozenset[str]) -> Residue:
        return measure(
            self._table,
            mark=self._run_id,
            lives=[],
            shared_memory_before=shared_memory_before,
        )
