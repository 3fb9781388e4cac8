"""Defects in what a restart puts back."""

from __future__ import annotations

from planted import when


def optimizer_not_restored(state):
    """AdamW begins anew, with the old weights."""
    restore = state.Training.restore

    def broken(self, saved):
        step = restore(self, saved)
        self.optimizer.state.clear()
        return step

    state.Training.restore = broken


def schedule_not_restored(state):
    """The learning rate begins again with its warm-up."""
    restore, rate = state.Training.restore, state.Schedule.rate
    begun_at = [0]

    def broken(self, saved):
        begun_at[0] = restore(self, saved)
        return begun_at[0]

    state.Training.restore = broken
    state.Schedule.rate = lambda self, step: rate(self, step - begun_at[0])


def random_state_not_restored(state):
    """Dropout draws what it would have drawn in the first steps."""
    state._restore_random_state = lambda states: None


def replicated_state_differs(state):
    """AdamW's count of steps, which all ranks have alike, is one higher on rank 1."""
    restore = state.Training.restore

    def broken(self, saved):
        step = restore(self, saved)
        if when.rank() == "1":
            for _, weight in self._weights():
                self.optimizer.state[weight]["step"] += 1
        return step

    state.Training.restore = broken


DEFECTS = {
    "optimizer_not_restored": ("trainer.state", optimizer_not_restored),
    "schedule_not_restored": ("trainer.state", schedule_not_restored),
    "random_state_not_restored": ("trainer.state", random_state_not_restored),
    "replicated_state_differs": ("trainer.state", replicated_state_differs),
}
