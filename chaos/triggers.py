"""A trigger and the progress of a rank: due, not yet, or past. Pure, standard library only.

Used inside ranks several times a step, so it compares plain values and allocates nothing. Leaves to its
callers: waiting `after_s` past the point, leases, and whether the order is for this life at all.
"""

from __future__ import annotations

from chaos.model.orders import Trigger

# Every step goes through these in this order. The other phases come when they come (a checkpoint in some steps
# only, a restart in none), so inside one step nothing is said about them.
_ORDER_IN_STEP = {"data": 0, "forward": 1, "backward": 2, "optimizer": 3}


def is_due(trigger: Trigger, *, step: int, phase: str, point: str) -> bool:
    """Whether this point of this phase of this step is the one asked for.

    A trigger without a step is due wherever the rank is; one without a phase is due in any phase of its step.
    """
    if trigger.step is None:
        return True
    return step == trigger.step and point == trigger.point and (trigger.phase is None or phase == trigger.phase)


def is_past(trigger: Trigger, *, step: int, phase: str) -> bool:
    """Whether the trigger can no longer be met by a rank that is now in `phase` of `step`.

    Says yes only when it is sure: phases without a fixed place in a step are past with their step.
    """
    if trigger.step is None or step < trigger.step:
        return False
    if step > trigger.step:
        return True
    if trigger.phase is None:
        return False
    wanted, now = _ORDER_IN_STEP.get(trigger.phase), _ORDER_IN_STEP.get(phase)
    return wanted is not None and now is not None and now > wanted
