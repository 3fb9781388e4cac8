"""The one session of this process, and the handlers that only say that it was interrupted.

chaoslib's own handlers raise in the middle of whatever runs; the first activity replaces them.
"""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from chaos.model.plan import Plan
from chaos.session.session import Session

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)

_session: Session | None = None


def session(configuration: dict[str, Any]) -> Session:
    """The session of this experiment; made, not opened, at the first call."""
    global _session
    if _session is None:
        _session = Session(
            msgspec.convert(configuration["plan"], Plan),
            Path(configuration["run_dir"]),
            keep_job=bool(configuration.get("keep_job", False)),
        )
        take_over_signals(_session)
    return _session


def existing() -> Session | None:
    """The session, if an activity has made one."""
    return _session


def take_over_signals(of: Session) -> None:
    """From here on a signal sets `interrupted`, once, and nothing else; every wait looks at it.

    `run` starts this process with signals blocked: those that came meanwhile arrive now."""

    def note(number: int, _frame: FrameType | None) -> None:
        of.interrupted = of.interrupted or signal.Signals(number).name

    for number in SIGNALS:
        signal.signal(number, note)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
