"""Defects planted on purpose: NVRX_BROKEN names one; this file, found through PYTHONPATH, breaks one module with it.

Loaded at the start of every Python process of a job (or of a run). It only waits for the module that is to be
broken; everything else stays as it is.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
import threading
import time

SLOW_WRITER_S = 1.0  # longer than the job lives from the early commit to the fault
BROKEN_STEP = 40  # the checkpoint that the recovery would go on from
CONNECTS_AT_STEP = 45


def optimizer_not_restored(state):
    restore = state.Training.restore

    def broken(self, saved):
        step = restore(self, saved)
        self.optimizer.state.clear()
        return step

    state.Training.restore = broken


def batch_repeated(data):
    position = data.Batches.position
    back = 1 if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0" else 0
    data.Batches.position = lambda self, step: position(self, step - back)


def published_early(store):
    """Rank 0 takes the other ranks' word before their parts are on disk."""
    write_part = store.write_part

    def slow_in_others(folder, rank, content):
        if rank and f"step-{BROKEN_STEP:06d}" in folder.name:
            time.sleep(SLOW_WRITER_S)
        write_part(folder, rank, content)

    def hasty(folder, world_size):
        if f"step-{BROKEN_STEP:06d}" not in folder.name:
            return all((folder / f"rank{rank}.json").exists() for rank in range(world_size))
        if not (folder / "rank0.json").exists():
            return False
        for rank in range(1, world_size):
            (folder / f"rank{rank}.json").write_text(f'{{"file": "rank{rank}.pt", "bytes": 0, "sha256": ""}}')
        return True

    store.write_part, store.all_parts_written = slow_in_others, hasty


def child_left_behind(state):
    """One rank starts a child in a session of its own and forgets it."""
    import subprocess

    if os.environ.get("RANK") == "0":
        quiet = subprocess.DEVNULL
        state.forgotten = subprocess.Popen(
            ["sleep", "300"], start_new_session=True, stdin=quiet, stdout=quiet, stderr=quiet
        )


def rank_connects_late(channel):
    """The rank trains before anybody can send it an order."""
    connect = channel.Channel.open

    def late(self, agent):
        def when_far_enough():
            while agent.step is None or agent.step < CONNECTS_AT_STEP:
                time.sleep(0.002)
            connect(self, agent)

        threading.Thread(target=when_far_enough, daemon=True).start()

    channel.Channel.open = late


def injector_crashes(injector):
    """A defect of ours, once a fault has fired."""
    tick = injector.Injector.tick

    def broken(self):
        tick(self)
        if any(shot.state == "fired" for shot in self.shots):
            raise ZeroDivisionError("planted")

    injector.Injector.tick = broken


DEFECTS = {
    "optimizer_not_restored": ("trainer.state", optimizer_not_restored),
    "batch_repeated": ("trainer.data", batch_repeated),
    "published_early": ("trainer.checkpoint_store", published_early),
    "child_left_behind": ("trainer.state", child_left_behind),
    "rank_connects_late": ("chaos.agent.channel", rank_connects_late),
    "injector_crashes": ("chaos.injector.injector", injector_crashes),
}


class BreakOnImport(importlib.abc.MetaPathFinder):
    """Finds the one module as everybody else would, and breaks it once it is loaded."""

    def __init__(self, module, break_it):
        self.module, self.break_it = module, break_it

    def find_spec(self, name, path, target=None):
        if name != self.module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def and_break(module):
            load(module)
            self.break_it(module)

        spec.loader.exec_module = and_break
        return spec


if os.environ.get("NVRX_BROKEN") in DEFECTS:
    sys.meta_path.insert(0, BreakOnImport(*DEFECTS[os.environ["NVRX_BROKEN"]]))
