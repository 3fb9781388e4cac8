"""How much harm of ours may be there at one time. Pure.

Counts what *we* hold down or have armed, not what the job loses in answer.
"""

from __future__ import annotations

from collections.abc import Set

from chaos.model.plan import LimitsPlan


def allows(limits: LimitsPlan, *, rank: int, down: Set[int], begun: int) -> bool:
    """Whether one more fault may begin at `rank` now. `down`: ranks that we hold stopped, or whose order is out and may
    still fire; `begun`: faults of this run that are armed or have fired."""
    if len({*down, rank}) > limits.ranks_down:
        return False
    return limits.faults is None or begun < limits.faults
