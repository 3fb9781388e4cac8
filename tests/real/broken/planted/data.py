"""Defects in the steps after a restart: which samples they take, whether they train, how long they last."""

from __future__ import annotations

import itertools
import time

from planted import when

UNTRAINED = 5  # of the steps after a restart, counted from 0
SLOW_STEP_S = 0.5  # many times what a step of the quick job takes, also on a busy machine
SLOW_UNTIL = 95  # most of the steps after the recovery; to its end it would take too long
FAILS_AGAIN_AT = 80  # steady again by then


def batch_repeated(data):
    position = data.Batches.position
    back = 1 if when.restarts() else 0
    data.Batches.position = lambda self, step: position(self, step - back)


def batch_skipped(data):
    position = data.Batches.position
    ahead = 1 if when.restarts() else 0
    data.Batches.position = lambda self, step: position(self, step + ahead)


def step_not_trained(optimise):
    """One step after a restart is reported, though the optimizer was never called."""
    make = optimise.make_optimizer

    def broken(model, settings):
        optimizer = make(model, settings)
        step, calls = optimizer.step, itertools.count()
        optimizer.step = lambda: None if when.restarts() and next(calls) == UNTRAINED else step()
        return optimizer

    optimise.make_optimizer = broken


def slow_after_restart(data):
    batch = data.Batches.batch

    def broken(self, step):
        if when.restarts() and step < SLOW_UNTIL:
            time.sleep(SLOW_STEP_S)
        return batch(self, step)

    data.Batches.batch = broken


def fails_once_more(data):
    """Rank 1 fails by itself, long after it was brought back."""
    batch = data.Batches.batch

    def broken(self, step):
        if when.restarts() == 1 and when.rank() == "1" and step == FAILS_AGAIN_AT:
            raise RuntimeError("planted: one failure more")
        return batch(self, step)

    data.Batches.batch = broken


DEFECTS = {
    "batch_repeated": ("trainer.data", batch_repeated),
    "batch_skipped": ("trainer.data", batch_skipped),
    "step_not_trained": ("trainer.optimise", step_not_trained),
    "slow_after_restart": ("trainer.data", slow_after_restart),
    "fails_once_more": ("trainer.data", fails_once_more),
}
