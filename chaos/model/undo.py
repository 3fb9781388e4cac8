"""How each harm is taken back: a frozen record of a closed set of verbs with this injection's arguments.

`system/undo.py` carries them out and measures; watchdog and `heal` need no fault's code.
"""

from __future__ import annotations

from typing import Any

import msgspec

UNDO_VERBS: tuple[str, ...] = ("resume_process", "stop_job", "remove_path", "disarm")


class Undo(msgspec.Struct, frozen=True, kw_only=True):
    """One undo. `args` by verb:

    resume_process {life: Life fields}           SIGCONT, measured: not stopped, or gone
    stop_job       {mark, keep: bool}            every process with the mark or descended from one, until none for 0.5 s
    remove_path    {path}                        a socket or file we made
    disarm         {life: Life fields, lease_s}  an order in a rank: gone with its lease or its process
    """

    verb: str
    args: dict[str, Any]

    def __post_init__(self) -> None:
        if self.verb not in UNDO_VERBS:
            raise ValueError(f"unknown undo verb {self.verb!r}; known: {', '.join(UNDO_VERBS)}")


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """What carrying out an undo gave. `how`: done | gone (target ended meanwhile) | kept | failed.

    `measured` is true only where the end state was looked at afterwards and found right.
    """

    how: str
    measured: bool
    detail: str = ""
