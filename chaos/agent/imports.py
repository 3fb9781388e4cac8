"""Has NVRx's and torch elastic's loggers heard from their first word on: whenever one of their modules is imported.

Looks at names and at one class of NVRx. What the words mean, and where they are written, is `nvrx_log.py`'s.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from chaos.agent.nvrx_log import ONE_FOR_ALL, cannot_hear, hear, hear_monitor

# Each of their modules logs under its own name.
SPEAKERS = ("nvidia_resiliency_ext.fault_tolerance.", "nvidia_resiliency_ext.inprocess.", "torch.distributed.elastic.")
LAUNCHER = "nvidia_resiliency_ext.fault_tolerance.launcher"
RANK_MONITORS = "nvidia_resiliency_ext.fault_tolerance.rank_monitor_server"


class Imports:
    """Asked for each module before it is loaded; loads none but the rank monitors', which it has to touch."""

    def __init__(self) -> None:
        self._asked_by_us = False
        hear(logging.getLogger(ONE_FOR_ALL))

    def find_spec(self, name: str, path: Any, target: Any) -> ModuleSpec | None:
        """None, but for the module of the rank monitors."""
        if self._asked_by_us or not name.startswith(SPEAKERS):
            return None
        try:
            hear(logging.getLogger(name))
            if name == LAUNCHER and sys.argv[:1] == ["-m"]:
                # `python -m`: the launcher is about to become `__main__`, and logs under that name.
                hear(logging.getLogger("__main__"))
            return self._of_rank_monitors() if name == RANK_MONITORS else None
        except Exception as error:
            cannot_hear(f"{name} is not heard: {error!r}")
            return None

    def _of_rank_monitors(self) -> ModuleSpec | None:
        self._asked_by_us = True
        try:
            spec = importlib.util.find_spec(RANK_MONITORS)
        finally:
            self._asked_by_us = False
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_hear(module: ModuleType) -> None:
                load(module)
                _hear_rank_monitors(module)

            spec.loader.exec_module = load_and_hear  # type: ignore[method-assign]
        return spec


def _hear_rank_monitors(module: ModuleType) -> None:
    """Their logger is made by hand and stands outside the tree of loggers: each is heard as soon as it is made."""
    logger_class = getattr(module, "RankMonitorLogger", None)
    if logger_class is None:
        return  # a version whose monitors use the one logger for all
    initialise = logger_class.__init__

    @functools.wraps(initialise)
    def initialise_and_hear(self: logging.Logger, *args: Any, **kwargs: Any) -> None:
        initialise(self, *args, **kwargs)
        hear_monitor(self)

    try:
        logger_class.__init__ = initialise_and_hear
    except Exception as error:  # the module itself is loaded, and of use to the job
        cannot_hear(f"rank monitors are not heard: {error!r}")
