"""Loaded by every Python process of a job at its start: this folder stands first on the job's PYTHONPATH.

Waits until NVRx or torch elastic is imported, and then has their words heard (`chaos.agent.imports`). Until then it
costs a look at each module's name, and loads nothing of ours. Whatever fails here, the job goes on without us.
At its end it steps aside for the `sitecustomize` that the process would have found without us.
"""

import os
import sys

TYPE_CHECKING = False  # neither `typing` nor `__future__` is loaded yet, and each costs more than all that is done here
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

AWAITED = ("nvidia_resiliency_ext", "torch.distributed.elastic")  # found before any module in them is


class Waiting:
    """Stands first on `sys.meta_path`, and stays there: a list that shrinks while it is gone through skips a finder."""

    def __init__(self) -> None:
        self._find: Callable[..., Any] | None = None

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """Finds nothing itself: what is asked for is found by those who come after."""
        if self._find is None:
            if name not in AWAITED:
                return None
            self._find = _begin()
        return self._find(name, path, target)


def _begin() -> "Callable[..., Any]":
    try:
        from chaos.agent.imports import Imports

        return Imports().find_spec
    except Exception as error:
        _complain(f"NVRx is not heard in process {os.getpid()}: {error!r}")
        return lambda name, path, target: None


def _complain(text: str) -> None:
    try:
        # Past its buffer: what a standard error cannot take must not be tried again when the process ends.
        os.write(sys.stderr.fileno(), f"nvrx-chaos: {text}\n".encode("ascii", "backslashreplace"))
    except Exception:
        pass  # a job without a standard error, or with one that takes nothing, is not to feel it


def _step_aside() -> None:
    """The next one on the path, if there is one, takes our place in `sys.modules`: the interpreter goes on with it, or
    hears that there is none, or how it failed, as it would have without us."""
    here = os.path.dirname(__file__)
    if here not in sys.path:
        return  # loaded in another way: the next one on the path would be ourselves, again and again
    sys.path[:] = [entry for entry in sys.path if entry != here]
    del sys.modules[__name__]
    __import__("sitecustomize")


if "NVRX_CHAOS_DIR" in os.environ:
    sys.meta_path.insert(0, Waiting())
_step_aside()
