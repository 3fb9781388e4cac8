"""Defects in how processes end, and in what they leave and gather."""

from __future__ import annotations

import os
import subprocess
import threading
import time

from planted import when

WRITTEN_S = 0.3  # what was noted is in the history by then
LEAK_BYTES = 64 << 20


def child_left_behind(state):
    """One rank starts a child in a session of its own and forgets it."""
    if when.rank() == "0":
        quiet = subprocess.DEVNULL
        state.forgotten = subprocess.Popen(
            ["sleep", "300"], start_new_session=True, stdin=quiet, stdout=quiet, stderr=quiet
        )


def thread_left_behind(state):
    """One rank starts a thread that never ends, and the process waits for it at its end."""
    if when.rank() == "1":
        threading.Thread(target=threading.Event().wait, name="forgotten").start()


def leaves_without_a_word(checkpoint):
    """Rank 1 ends with status 0 right before its end, as if it had done all it should."""
    take_digest = checkpoint.Checkpoints.take_digest

    def broken(self, step, purpose):
        if purpose == "end" and self._ours.rank == 1:
            time.sleep(WRITTEN_S)
            os._exit(0)
        take_digest(self, step, purpose)

    checkpoint.Checkpoints.take_digest = broken


def memory_grows(corpus):
    """Each entry into the training function keeps what the one before it had."""
    read, kept = corpus.read, []

    def broken(*arguments, **named):
        kept.append(b"\xff" * LEAK_BYTES)
        return read(*arguments, **named)

    corpus.read = broken


DEFECTS = {
    "child_left_behind": ("trainer.state", child_left_behind),
    "thread_left_behind": ("trainer.state", thread_left_behind),
    "leaves_without_a_word": ("trainer.checkpoint", leaves_without_a_word),
    "memory_grows": ("trainer.corpus", memory_grows),
}
