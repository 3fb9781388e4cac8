"""Every defect that can be planted: its name, the module that it breaks, and the function that breaks it.

Standard library only: each process of a job imports this before anything else.
"""

from __future__ import annotations

from planted import checkpoints, data, ends, hangs, ours, state

FAMILIES = (state, checkpoints, data, ends, hangs, ours)
DEFECTS = {name: found for family in FAMILIES for name, found in family.DEFECTS.items()}
assert len(DEFECTS) == sum(len(family.DEFECTS) for family in FAMILIES), "two defects share a name"
