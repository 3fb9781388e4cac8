"""What NVRx itself says in this process, stamped with our clock: heard at its loggers, in ranks, launcher and monitors.

Hears the logger and not its handlers: so no level, handler or configuration of the job hides a word from us, and what
the job shows of its log stays as it is. What a message means is `model/nvrx_messages.py`'s, in whose file it goes
`voice.py`'s.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from chaos.agent.voice import Voice
from chaos.model.nvrx_messages import told

if TYPE_CHECKING:
    from chaos.agent.core import Agent

HEARD_FROM = logging.INFO  # NVRx's restart marker is an INFO record; what tells more is none of its words
ONE_FOR_ALL = "nvrx"  # from 0.6 on all of NVRx logs under this name
_IN_PROCESS = "nvidia_resiliency_ext.inprocess"
# Where a rank's words come from, for a job that was started without our `sitecustomize`.
LOGGERS = (
    f"{_IN_PROCESS}.wrap", f"{_IN_PROCESS}.monitor_thread", f"{_IN_PROCESS}.monitor_process",
    f"{_IN_PROCESS}.rank_assignment", ONE_FOR_ALL,
)  # fmt: skip
_OF_A_RANK = os.path.join("nvidia_resiliency_ext", "inprocess", "")  # in the path of the code that speaks
HEARD = ("isEnabledFor", "handle")  # the methods of a logger that we stand before

_voice = Voice()
_of_the_monitor: logging.Logger | None = None  # where this process is a rank monitor


def listen_to_nvrx(agent: Agent) -> None:
    """From now on this process's words are written by this agent, as the rank's own."""
    _voice.join(agent)
    for name in LOGGERS:
        hear(logging.getLogger(name))


def hear(logger: logging.Logger) -> None:
    """Every record from HEARD_FROM up is told; the job sees those that it would have seen without us.

    The logger is told that it is enabled; before its filters and handlers, its own level decides again. No lock is
    taken: an asynchronous exception of NVRx would leave it held.
    """
    if HEARD[0] in vars(logger):
        return
    would_show, show = logger.isEnabledFor, logger.handle

    def is_enabled_for(level: int) -> bool:
        return level >= HEARD_FROM or would_show(level)

    def handle(record: logging.LogRecord) -> None:
        _tell(logger, record)
        if would_show(record.levelno):
            show(record)

    vars(logger).update(zip(HEARD, (is_enabled_for, handle), strict=True))


def hear_monitor(logger: logging.Logger) -> None:
    """The logger that a rank monitor has made for itself."""
    global _of_the_monitor
    _of_the_monitor = logger
    hear(logger)


def cannot_hear(reason: str) -> None:
    """Some of NVRx's words will not be heard in this process."""
    _voice.say("source_blind", {"source": "nvrx_log", "reason": reason})


def _tell(logger: logging.Logger, record: logging.LogRecord) -> None:
    """Never raises into the job, never prints."""
    try:
        said = told(record.getMessage(), record.name)
        if said is None:
            return
        _voice.say(
            said.kind,
            {"source": "handler", **said.fields},  # where NVRx has layers, its own `source` names the one that spoke
            rank=_rank_known_to(logger, said.speaker),
            of_a_rank=_OF_A_RANK in record.pathname,
        )
    except Exception:
        return


def _rank_known_to(logger: logging.Logger, speaker: int | None) -> int | None:
    """The logger of a rank monitor knows whose it is, also when the monitor speaks through the one logger for all: as
    a number, or as the text that it found in the environment."""
    for each in (logger, _of_the_monitor):
        known = str(getattr(each, "rank", ""))
        if known.isdecimal():
            return int(known)
    return speaker
