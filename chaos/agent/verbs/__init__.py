"""What a rank can do to itself: a closed set. Each writes `fault_fired` first, then acts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chaos.agent.verbs.notify import notify
from chaos.agent.verbs.raise_error import raise_error
from chaos.agent.verbs.signal_self import signal_self
from chaos.model.orders import VERBS

VERB_BY_NAME: dict[str, Callable[[Any, Any, str], None]] = {
    "raise_error": raise_error,
    "signal_self": signal_self,
    "notify": notify,
}
assert tuple(VERB_BY_NAME) == VERBS, "the verbs of a rank and of an order differ"
