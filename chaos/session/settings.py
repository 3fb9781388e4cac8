"""How long a session waits for what, each with its reason."""

from __future__ import annotations

PUMP_S = 0.1  # how often the history is looked at: an order is sent this late at most, and each look costs the job
CALM_PUMP_S = 0.5  # while no fault is due and none is being recovered from
DRAIN_LOOK_S, DRAIN_LOOKS = 0.08, 3  # at the end: a rank's last notes are written 200 ms after they were made
RECOVERY_WAIT_FACTOR = 4  # past four times the objective, slow and never look alike
RECOVERY_WAIT_MIN_S = 20.0  # and never less than a busy machine may need
RESIDUE_AFTER_S = 5.0  # what the job still holds this long after its end, it has left behind (design, part 5)
EXIT_GRACE_S = 10.0  # launchers end some seconds after their ranks: every rank has finished, the launcher has not
EVIDENCE_S = 5.0  # for all evidence of a wait that ran out: what is held is held for so much longer
ANSWER_S = 1.0  # of these for what a rank writes itself; one that is slower is looked at from outside only
EVENTS_SHOWN = 20  # of each rank, the last ones
EVIDENCE_FILE_BYTES_MAX = 1 << 20
