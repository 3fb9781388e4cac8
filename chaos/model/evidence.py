"""Names of the files that are kept when a wait runs out, and the line with which a process offers its stacks.

Standard library only: ranks import this file. Processes of the job write some of these files
(`chaos/agent/evidence.py`), the session the others.
"""

from __future__ import annotations

import re

FOLDER = "evidence"  # in the run directory

_OFFER = re.compile(r"life (\S+) writes its stacks here on signal (\d+)")


def stacks_name(who: object, pid: int | str) -> str:
    """`who` is the initial rank, or the role of a process that is none; `pid` as the process itself knows it."""
    return f"stacks-{who}-{pid}.txt"


def collectives_name(who: object, pid: int) -> str:
    return f"collectives-{who}-{pid}.json"


def offer(life: str, signal_number: int) -> str:
    """The first line of a stacks file that a process holds open."""
    return f"life {life} writes its stacks here on signal {signal_number}\n"


def offered_signal(line: str, life: str) -> int | None:
    """The signal that this line offers; None where it is no offer, or that of another life."""
    found = _OFFER.match(line)
    return int(found[2]) if found is not None and found[1] == life else None
