"""What nvrx-chaos is told: the only file that imports the agent. All of it does nothing in an ordinary run."""

from __future__ import annotations

from chaos.agent import emit, enter, entered, finished, group_ready, point, step_done, watch

__all__ = ["emit", "enter", "entered", "finished", "group_ready", "point", "step_done", "watch"]
