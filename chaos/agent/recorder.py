"""Takes events from the job's threads as notes, and writes them from a thread of its own.

A write with cold caches costs the training thread several times what a note costs (docs/decisions, 6). So a thread of
the job only notes: time stamp, header, plain values. One thread alone writes, in the order of the notes, whole lines
in one `os.write`, and it alone learns that the disk fails; so there is nothing to lock. The events of every step are
written within FLUSH_S (CALM_FLUSH_S when not `in_haste`), all others at once. Where an event must be on disk before
something is done, `settle` waits for it. A death from outside (a signal, `os._exit`) loses at most what was noted in
that time.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any

from chaos.history.writer import Writer

FLUSH_S = 0.05  # while the rank holds an order: what it did last before a harm from outside is to be known
CALM_FLUSH_S = 0.2  # else: each wake-up takes the interpreter, and a CPU, away from training
SETTLE_S = 1.0  # a disk that takes longer for a line hangs: then nothing is done
CLOSE_S = 2.0  # a disk that takes no line for so long at the end of the process hangs: the rest is given up
BATCH = 500  # notes in one write at most

# A note is an event (t_ns, header, kind, values), a mark that waits for its answer, or the reason to end.
_Event = tuple[int, str, str, Any]
_Mark = SimpleQueue[bool]


class Recorder:
    """`failed(reason)` is called once, on the recorder's thread, when it has to end before its time.

    Deque and SimpleQueue take a value in one step of C code: an asynchronous exception finds it taken or not taken,
    and no lock held. That exception may fall between a note and its wake-up; then the note waits that long.
    """

    def __init__(
        self, writer: Writer, failed: Callable[[str], None], in_haste: Callable[[], bool] = lambda: True
    ) -> None:
        self._writer = writer
        self._failed = failed
        self._in_haste = in_haste
        self._notes: deque[_Event | _Mark | str] = deque()
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._closing = False
        self._over = False  # nothing is written any more
        self._thread = threading.Thread(target=self._serve, name="nvrx-chaos-recorder", daemon=True)
        self._thread.start()

    def identify(self, **header: Any) -> None:
        """Sets the header of the notes to come (`Writer.identify`'s arguments)."""
        self._writer.identify(**header)

    # what is noted: plain values only, taken now. What cannot be put so ends the recorder, not the job.

    def note(self, kind: str, fields: Mapping[str, Any] | None = None) -> None:
        """An event of any kind. It is rare, and may be the word before a death: it is written at once."""
        now_ns = time.monotonic_ns()
        try:
            self._notes.append((now_ns, self._writer.head, kind, Writer.tail(fields)))
        except Exception as error:
            self.give_up(str(error))
        self._wake.put(None)

    def note_phase(self, phase: str, step: int | None) -> None:
        """`phase_entered`."""
        now_ns = time.monotonic_ns()
        try:
            values = (str(phase), None if step is None else int(step))
            self._notes.append((now_ns, self._writer.head, "phase_entered", values))
        except Exception as error:
            self.give_up(str(error))

    def note_step_returned(self, step: int | None) -> None:
        """`step_returned`. The step is one that `note_phase` has taken."""
        self._notes.append((time.monotonic_ns(), self._writer.head, "step_returned", step))

    def note_step_done(self, step: int, loss: float, lr: float, grad_norm: float, samples: tuple[int, int]) -> None:
        """`step_done`."""
        now_ns = time.monotonic_ns()
        try:
            values = (int(step), float(loss), float(lr), float(grad_norm), int(samples[0]), int(samples[1]))
            self._notes.append((now_ns, self._writer.head, "step_done", values))
        except Exception as error:
            self.give_up(str(error))

    # what is asked of it

    def settle(self) -> bool:
        """Waits until all that was noted before is written; False when that did not happen within SETTLE_S."""
        mark: _Mark = SimpleQueue()
        self._notes.append(mark)
        if self._over:  # looked at after the append: the thread sets it before it answers the marks that are left
            return False
        self._wake.put(None)
        try:
            return mark.get(timeout=SETTLE_S)
        except Empty:
            return False

    def give_up(self, reason: str) -> None:
        """Nothing after this is written; `failed` is called when what was noted before is."""
        self._notes.append(reason)
        self._wake.put(None)

    def close(self) -> None:
        """At the end of the process: writes what is left and ends."""
        self._closing = True
        self._wake.put(None)
        left = len(self._notes) + 1
        while self._thread.is_alive() and len(self._notes) < left:
            left = len(self._notes)
            self._thread.join(CLOSE_S)

    def forget(self) -> None:
        """In a forked child: the thread is not there, and the file is the parent's."""
        self._over = True
        self._notes.clear()
        try:
            self._writer.close()
        except OSError:
            pass  # the job had closed it

    # the recorder's thread

    def _serve(self) -> None:
        try:
            while not self._closing:
                self._pause()
                self._flush()
            self._flush()
        except Exception as error:
            self._failed(str(error))
        self._over = True  # after the last word: who is told that nothing is written finds the agent quiet
        for note in list(self._notes):
            if isinstance(note, SimpleQueue):
                note.put(False)

    def _pause(self) -> None:
        try:
            self._wake.get(timeout=FLUSH_S if self._in_haste() else CALM_FLUSH_S)
        except Empty:
            pass

    def _flush(self) -> None:
        while self._notes:
            self._write_some()

    def _write_some(self) -> None:
        """A mark leaves the notes only when what came before it is written."""
        lines: list[str] = []
        past_s = time.time() - time.monotonic_ns() / 1e9
        for _ in range(min(len(self._notes), BATCH)):
            note = self._notes[0]
            if isinstance(note, tuple):
                lines.append(_line(past_s, *note))
            else:
                self._put(lines)
                lines = []
                if isinstance(note, str):
                    raise RuntimeError(note)
                note.put(True)
            self._notes.popleft()
        self._put(lines)

    def _put(self, lines: list[str]) -> None:
        if lines:
            self._writer.put("".join(lines))


def _line(past_s: float, t_ns: int, head: str, kind: str, values: Any) -> str:
    start = f'{{"t_ns":{t_ns},"wall_s":{past_s + t_ns / 1e9:.6f}{head}"kind":"{kind}"'
    if isinstance(values, str):
        return f"{start}{values}\n"
    if kind == "step_done":
        step, loss, lr, grad_norm, first, end = values
        return (
            f'{start},"step":{step},"loss":"{loss.hex()}","lr":"{lr.hex()}",'
            f'"grad_norm":"{grad_norm.hex()}","samples":[{first},{end}]}}\n'
        )
    if kind == "phase_entered":
        phase, step = values
        return f'{start},"phase":{json.dumps(phase)},"step":{"null" if step is None else step}}}\n'
    return f'{start},"step":{"null" if values is None else values}}}\n'
