"""Runs the sources of one run on a thread of its own. Holds read-only doors: it can watch, and append, and no more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from chaos.doors import CheckpointReader, ExitReader, NewsReader, ProcessReader
from chaos.history.writer import Writer
from chaos.model.events import Event
from chaos.model.identity import Life
from chaos.observer.checkpoint_source import CheckpointSource
from chaos.observer.launcher_log import LauncherLog
from chaos.observer.machine_source import MachineReader, MachineSource
from chaos.observer.memory_source import MemoryReader, MemorySource
from chaos.observer.overhear import Overhearing
from chaos.observer.process_source import ProcessSource


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
        memory: MemoryReader,
        helpers: Callable[[], list[int]],
        news: NewsReader | None = None,
        checkpoints: CheckpointReader | None = None,
    ) -> None:
        """`helpers` gives the pids of this framework (controller, watchdog): no foreigners on the CPU. `news`: where
        the kernel may be asked; `checkpoints`: where the layout of the job's folder is known."""
        self._writer = writer
        self._log = LauncherLog(log_path, log_name, writer)
        # The log must bear out what the process table shows.
        heard = Overhearing(writer, self._log.saw_process)
        self.processes = ProcessSource(mark, reader, exits, heard, news)
        self._machine = MachineSource(machine, writer)
        self._memory = MemorySource(memory, writer)
        self._checkpoints = None if checkpoints is None else CheckpointSource(checkpoints, writer)
        self._helpers = helpers
        self._stopping = threading.Event()
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._guarded, name="nvrx-chaos-observer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def rank_lives(self) -> dict[str, tuple[Life, int | None]]:
        """life id -> (life, initial rank) of the ranks that are alive."""
        alive = list(self.processes.alive())
        return {known.life.id: (known.life, known.rank) for known in alive if known.role == "rank"}

    def hear(self, event: Event) -> None:
        """What the job said, as far as it tells where to look."""
        self.processes.hear(event)
        if self._checkpoints is not None and event.kind == "checkpoint_committed":
            step = event.data.get("step")
            if isinstance(step, int):
                self._checkpoints.committed(step)

    def stop(self) -> None:
        """Looks once more at everything, then ends the thread."""
        self._stopping.set()
        self._thread.join(timeout=5.0)
        self.processes.close()
        if self._checkpoints is not None:
            self._checkpoints.finish()

    def _guarded(self) -> None:
        """A source that fails says that it is blind: its silence must not look like peace."""
        try:
            self._watch()
        except Exception as error:
            self.failure = error
            try:
                self._writer.write_about(
                    "source_blind", {"source": "controller", "reason": f"the observer: {error!r}"}, life=None
                )
            except OSError:
                return

    def _watch(self) -> None:
        while not self._stopping.is_set():
            self.processes.step()
            alive = list(self.processes.alive())
            ranks = [known.life for known in alive if known.role == "rank"]
            ours = [known.life.pid for known in alive] + self._helpers()
            self._machine.step(ranks, ours)
            self._memory.step(ranks, self.processes.launcher)
            self._log.poll()
        self.processes.step(0.0)
        self._log.poll(last=True)
