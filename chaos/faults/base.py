"""What a fault is: parameters, needs, its order or its harm through doors, its undo, its confirmation.

A fault knows no process: lives, doors and events are handed in. One file a fault; the catalogue is a tuple.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, runtime_checkable

import msgspec

from chaos.doors import ProcessKiller, ProcessReader
from chaos.model.events import Event
from chaos.model.identity import Life
from chaos.model.undo import Undo


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """What outside evidence says of one firing. `acted` None = nothing seen yet that decides."""

    acted: bool | None
    how: str = ""
    evidence: tuple[str, ...] = ()


class Fault(Protocol):
    """A harm we know how to cause, to confirm from outside, and to take back."""

    name: ClassVar[str]  # family.kind
    Params: ClassVar[type[msgspec.Struct]]
    summary: ClassVar[str]
    layer: ClassVar[str]  # what it truly acts on
    fidelity: ClassVar[str]  # real | simulated
    ends: ClassVar[str]  # undone | by_itself | final
    certifies: ClassVar[str]
    does_not_certify: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]  # names that fitness.py can check: "pidfd", "proc"
    touches: ClassVar[tuple[str, ...]]
    usual_layer: ClassVar[str]  # lowest NVRx layer that can recover from it

    def took_effect(self, params: Any, fired: Event, events: list[Event]) -> Confirmation:
        """Decides from events of the *outside* (process table) at and after the firing."""


@runtime_checkable
class FeltInRank(Protocol):
    """A fault that a rank does to itself, when ordered."""

    def verb(self, params: Any) -> tuple[str, dict[str, Any]]:
        """The order's verb and arguments."""


@runtime_checkable
class ActsFromOutside(Protocol):
    """A fault that the injector does to a process."""

    def undo(self, params: Any, target: Life) -> Undo | None:
        """What takes it back; None for a fault whose `ends` is final."""

    def harm(self, params: Any, target: Life, killer: ProcessKiller, mark: str) -> None:
        """Does it. The undo is on disk by then."""


@runtime_checkable
class ConfirmedByLooking(Protocol):
    """A fault whose effect is a state of the target and no event: it is seen by looking right after the harm."""

    def looks_right(self, params: Any, target: Life, reader: ProcessReader) -> Confirmation:
        """What the process table says now; `acted` None = look again, or say that nothing was seen."""
