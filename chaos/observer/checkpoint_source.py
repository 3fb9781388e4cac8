"""Looks at each checkpoint that the job says it has committed, and at all that are left at the end, and writes
`checkpoint_seen`. What a damaged one means is the judge's to say.

On a thread of its own that sleeps until there is something to look at: hashing would hold up the other sources, whose
times must be exact. That thread runs at the lowest priority, because the job has better things to do with its cores.
"""

from __future__ import annotations

import os
import threading
from queue import SimpleQueue

from chaos.doors import CheckpointReader
from chaos.history.writer import Writer

LOWEST_PRIORITY = 19
LAST_LOOK_S = 10.0  # a folder that takes longer to read at the end hangs, and is blind


class CheckpointSource:
    """`committed(step)` from any thread; `finish()` looks at what is left, waits for it, and ends the thread."""

    def __init__(self, reader: CheckpointReader, writer: Writer) -> None:
        self._reader, self._writer = reader, writer
        self._asked: SimpleQueue[int | None] = SimpleQueue()
        self._blind = False
        self._any_committed = False
        self._thread = threading.Thread(target=self._serve, name="nvrx-chaos-checkpoints", daemon=True)
        self._thread.start()

    def committed(self, step: int) -> None:
        """The job says that this one counts now."""
        self._asked.put(step)

    def finish(self) -> None:
        """To be called once the job writes no more."""
        self._asked.put(None)
        self._thread.join(LAST_LOOK_S)
        if self._thread.is_alive():
            self._say_blind(f"the checkpoint folder could not be read within {LAST_LOOK_S:g} s")

    def _serve(self) -> None:
        """A look that fails is said and is not the last one: the folder may be readable again."""
        _step_back()
        while (step := self._asked.get()) is not None:
            self._any_committed = True
            self._guarded([step])
        self._guarded(None)

    def _guarded(self, steps: list[int] | None) -> None:
        try:
            for step in self._reader.steps() if steps is None else steps:
                self._look_at(step)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not self._any_committed:
                return  # a job that ended before it made the folder: nothing is there to be seen
            self._say_blind(f"{error.filename or 'the checkpoint folder'}: {error.strerror or error}")
        except Exception as error:
            self._say_blind(f"looking at checkpoints failed: {error!r}")

    def _look_at(self, step: int) -> None:
        look = self._reader.look(step)
        if look is None:
            return
        self._writer.write_about(
            "checkpoint_seen",
            {
                "step": look.step,
                "path": look.path,
                "files": look.files,
                "bytes": look.bytes,
                "problem": look.problem,
                "verified": look.verified,
            },
            life=None,
        )

    def _say_blind(self, reason: str) -> None:
        if self._blind:
            return
        self._blind = True
        try:
            self._writer.write_about("source_blind", {"source": "checkpoint_folder", "reason": reason}, life=None)
        except OSError:
            return  # the history itself cannot be written: its manifest says so


def _step_back() -> None:
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
    except OSError:
        return
