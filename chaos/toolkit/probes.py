"""The one probe of an experiment, asked before the method and after it."""

from __future__ import annotations

from typing import Any

from chaos.toolkit import current

__all__ = ["steady_or_passed"]


def steady_or_passed(configuration: dict[str, Any]) -> bool:
    """Before the method: opens the session, starts the job, and *raises* when it does not become steady (a probe that
    returns False here would skip the method and still exit 0). After it: whether the verdict is passed."""
    session = current.session(configuration)
    if session.concluded:
        return session.verdict is not None and session.verdict.outcome == "passed"
    try:
        session.open()
        session.begin()
    except Exception as error:
        session.note(error)  # chaoslib only writes it into its journal
        raise
    return True
