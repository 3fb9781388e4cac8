"""Exit statuses, and which of them wins (the worst of a command's runs)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chaos.model.verdict import Verdict

PASSED = 0
FAILED = 1
NOTHING_TOUCHED = 2
UNKNOWN = 3
NOT_UNDONE = 4
BROKEN = 70
CANNOT_CREATE = 73
CANNOT_WRITE = 74

MEANING = {
    PASSED: "every run passed, or failed by nothing but a defect that its scenario knows",
    UNKNOWN: "the worst outcome is unknown or not_run, or the command was interrupted",
    FAILED: "a run failed",
    NOT_UNDONE: "something of ours is not proven undone: run `nvrx-chaos heal`",
    NOTHING_TOUCHED: "nothing was touched: wrong usage, an invalid file, or a host that must be healed first",
    BROKEN: "our own crash",
    CANNOT_CREATE: "an output cannot be created",
    CANNOT_WRITE: "input or output failed",
}
OURS = (BROKEN, CANNOT_CREATE, CANNOT_WRITE)  # about us, not about the job
# from mildest to worst; 2 never meets the others, because it means that nothing was started
_ORDER = (PASSED, UNKNOWN, FAILED, NOT_UNDONE, NOTHING_TOUCHED, CANNOT_CREATE, CANNOT_WRITE, BROKEN)

BY_OUTCOME = {"passed": PASSED, "failed": FAILED, "unknown": UNKNOWN, "not_run": UNKNOWN}


def status_of(verdict: Verdict) -> int:
    """The status of a run as its verdict has it; what was left undone comes on top."""
    return PASSED if verdict.outcome == "failed" and verdict.known else BY_OUTCOME[verdict.outcome]


def worst_status(statuses: Iterable[int]) -> int:
    """The status that wins. An unlisted one (a process killed by a signal) is a crash; none at all proves nothing."""
    ranked = [status if status in _ORDER else BROKEN for status in statuses]
    return max(ranked, key=_ORDER.index, default=UNKNOWN)
