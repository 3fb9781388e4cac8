"""What NVRx itself says in this rank, stamped with our clock: a logging handler on its loggers."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chaos.agent.core import Agent

# The markers that inprocess/wrap.py writes (0.4.1 to 0.7.0): `rank=1 fn_ex: ...`
_MARKER = re.compile(r"\b(fn_ex|async_ex|other_ex|term_ex|health_ex|restart_ex|exit_ex)\b: (.*)", re.DOTALL)
_INTERRUPTIONS = frozenset({"fn_ex", "async_ex", "other_ex", "term_ex"})
TEXT_MAX = 500
# Where that file logs: 0.4.1 under its own name, 0.6 and 0.7 all of NVRx under one.
LOGGERS = ("nvidia_resiliency_ext.inprocess.wrap", "nvrx")


class _Listener(logging.Handler):
    """Turns NVRx's records into events. Never raises into the job, never prints."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(logging.DEBUG)
        self._agent = agent

    def createLock(self) -> None:
        """No lock: an asynchronous exception inside `acquire` would leave it held for ever."""
        self.lock = None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            found = _MARKER.search(record.getMessage())
            if found is None:
                return
            marker, text = found[1], found[2][:TEXT_MAX]
        except Exception:
            return
        if marker in _INTERRUPTIONS:
            self._agent.emit("interruption_reported", {"source": "in_process", "marker": marker, "text": text})
        elif marker == "restart_ex":
            self._agent.emit("health_check_passed", {"text": text})
        elif marker == "health_ex":
            self._agent.emit("health_check_failed", {"text": text})
        else:
            self._agent.emit("rank_excluded", {"text": text})


def listen_to_nvrx(agent: Agent) -> None:
    """Installs the handler on NVRx's own loggers; the program's handlers and its root level stay as they are."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.addHandler(_Listener(agent))
        # NVRx's restart marker is an INFO record; without this a quiet root level would hide it from us.
        if logger.getEffectiveLevel() > logging.INFO:
            logger.setLevel(logging.INFO)
