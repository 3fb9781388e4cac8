"""Exit statuses and which one wins, asked of `chaos/model/exit_status.py` itself."""

from __future__ import annotations

from itertools import permutations

from chaos.model.exit_status import MEANING, NOTHING_TOUCHED, worst_status
from reference.markdown import code, table


def rows() -> list[tuple[str, str, str]]:
    """Status, meaning, and which others it beats when runs of one command end differently."""
    # Nothing was started then, so there is no other run to meet.
    meeting = [status for status in MEANING if status != NOTHING_TOUCHED]
    beats: dict[int, list[int]] = {status: [] for status in MEANING}
    for one, other in permutations(meeting, 2):
        if worst_status([one, other]) == one:
            beats[one].append(other)
    in_order = [*sorted(meeting, key=lambda status: len(beats[status])), NOTHING_TOUCHED]
    return [(code(status), MEANING[status], _words(status, beats[status])) for status in in_order]


def _words(status: int, beaten: list[int]) -> str:
    if status == NOTHING_TOUCHED:
        return "only alone"
    return ", ".join(map(code, sorted(beaten))) or "–"


def statuses() -> str:
    return table(("exit status", "meaning", "beats"), rows())
