"""Ranks that hang for good."""

from __future__ import annotations

import ctypes

from planted import when


def wait_for_ever():
    """In C code, and with the interpreter held: no thread of this process runs any more."""
    held = ctypes.PyDLL(None)
    while True:
        held.sleep(3600)  # a signal ends it early


def hangs_after_restart(data):
    """Rank 1 comes back, loads the checkpoint, and hangs before its first step."""
    batch = data.Batches.batch

    def broken(self, step):
        if when.rank() == "1" and when.restarts():
            wait_for_ever()
        return batch(self, step)

    data.Batches.batch = broken


DEFECTS = {"hangs_after_restart": ("trainer.data", hangs_after_restart)}
