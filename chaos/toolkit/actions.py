"""The actions of an experiment. chaoslib orders them; it decides nothing."""

from __future__ import annotations

from typing import Any

from chaos.toolkit import current

__all__ = ["arm", "conclude", "undo_all"]


def arm(fault: str, configuration: dict[str, Any]) -> str:
    """Queues one fault of the plan by its name, and returns."""
    current.session(configuration).arm(fault)
    return fault


def conclude(configuration: dict[str, Any]) -> str:
    """Waits for the end, undoes, stops the job, measures what is left, judges."""
    session = current.session(configuration)
    session.conclude()
    return session.verdict.outcome if session.verdict is not None else "none"


def undo_all(configuration: dict[str, Any]) -> str:
    """The net under everything: normally finds nothing, and concludes where `conclude` did not run."""
    return conclude(configuration)
