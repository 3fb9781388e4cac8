"""Makes this process the one that orphans of its descendants come to, and reaps those that are the job's.

So daemonised leftovers of a job stay our descendants, and can be found.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

from chaos.errors import Refused
from chaos.model.identity import Life

_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """From now on orphaned descendants become our children. Raises Refused where the kernel says no."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise Refused(f"this process cannot become the subreaper of its job: {reason}", remedy="nvrx-chaos doctor")


def reap_orphans(lives: Iterable[Life]) -> list[Life]:
    """Reaps those of the given lives that ended as our children.

    Hand in lives that came to us as orphans only: a child that a Popen object waits for is for that object to reap,
    which would otherwise report a wrong exit status.
    """
    return [life for life in lives if _reap(life.pid)]


def _reap(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG) is not None
    except ChildProcessError:
        return False
