"""Runs the sources of one run on threads of its own. Holds read-only doors: it can watch, and append, and no more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from chaos.doors import ExitReader, ProcessReader
from chaos.history.writer import Writer
from chaos.model.identity import Life
from chaos.observer.launcher_log import LauncherLog
from chaos.observer.machine_source import MachineReader, MachineSource
from chaos.observer.process_source import ProcessSource

LOG_POLL_S = 0.2


class Observer:
    """Started before the job; `watch_launcher` right after its start; `stop` after the last process has ended."""

    def __init__(
        self,
        *,
        mark: str,
        log_path: Path,
        log_name: str,
        writer: Writer,
        reader: ProcessReader,
        exits: ExitReader,
        machine: MachineReader,
        helpers: Callable[[], list[int]],
    ) -> None:
        """`helpers` gives the pids of this framework (controller, watchdog): no foreigners on the CPU."""
        self._writer = writer
        self.processes = ProcessSource(mark, reader, exits, writer)
        self._log = LauncherLog(log_path, log_name, writer)
        self._machine = MachineSource(machine, writer)
        self._helpers = helpers
        self._stopping = threading.Event()
        self.failure: Exception | None = None
        self._threads = [
            threading.Thread(
                target=self._guarded, args=(self._watch_processes,), name="nvrx-chaos-processes", daemon=True
            ),
            threading.Thread(target=self._guarded, args=(self._watch_log,), name="nvrx-chaos-log", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def rank_lives(self) -> dict[str, tuple[Life, int | None]]:
        """life id -> (life, initial rank) of the ranks that are alive."""
        alive = list(self.processes.alive())
        return {known.life.id: (known.life, known.rank) for known in alive if known.role == "rank"}

    def stop(self) -> None:
        """Looks once more at everything, then ends the threads."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(timeout=5.0)
        self.processes.close()

    def _guarded(self, watch: Callable[[], None]) -> None:
        """A source that fails says that it is blind: its silence must not look like peace."""
        try:
            watch()
        except Exception as error:
            self.failure = error
            try:
                self._writer.write_about(
                    "source_blind", {"source": "controller", "reason": f"{watch.__name__}: {error!r}"}, life=None
                )
            except OSError:
                return

    def _watch_processes(self) -> None:
        while not self._stopping.is_set():
            self.processes.step()
            alive = list(self.processes.alive())
            ranks = [known.life for known in alive if known.role == "rank"]
            ours = [known.life.pid for known in alive] + self._helpers()
            self._machine.step(ranks, ours)
        self.processes.step(0.0)

    def _watch_log(self) -> None:
        while not self._stopping.wait(LOG_POLL_S):
            self._log.poll()
        self._log.poll(last=True)
