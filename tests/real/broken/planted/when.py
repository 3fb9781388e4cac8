"""Where a process stands: which rank it is, and whether the launcher has restarted it."""

from __future__ import annotations

import os


def rank():
    return os.environ.get("RANK")


def restarts():
    """How often the launcher had restarted the ranks when this process began."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
