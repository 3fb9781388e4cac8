"""Every mutant there is."""

from __future__ import annotations

import broken_ends
import broken_faults
import broken_groups
import broken_jobs
import broken_state
import broken_times

FAMILIES = (broken_jobs, broken_faults, broken_times, broken_groups, broken_state, broken_ends)
MUTANTS = tuple(mutant for family in FAMILIES for mutant in family.MUTANTS)
BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
assert len(BY_NAME) == len(MUTANTS), "two mutants share a name"
