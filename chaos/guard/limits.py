"""How much harm of ours may be there at one time. Pure.

Counts what *we* hold down, not what the job loses in answer.
"""

from __future__ import annotations

from chaos.errors import Refused
from chaos.model.plan import LimitsPlan


def require(limits: LimitsPlan, *, held_down: int, armed: int = 0, fired: int = 0) -> None:
    """Raises Refused when one more fault would go beyond the limits.

    `held_down`: ranks that we hold stopped or have just ended; `armed`: orders out that may still fire;
    `fired`: faults fired in this run so far.
    """
    if held_down + armed + 1 > limits.ranks_down:
        raise Refused(
            f"one more fault would touch {held_down + armed + 1} rank(s) at one time "
            f"({held_down} held down, {armed} armed); limits.ranks_down allows {limits.ranks_down}",
            remedy="raise limits.ranks_down, or put the faults further apart",
        )
    if limits.faults is not None and fired + armed + 1 > limits.faults:
        raise Refused(
            f"one more fault would be number {fired + armed + 1} of this run; limits.faults allows {limits.faults}",
            remedy="raise limits.faults",
        )
