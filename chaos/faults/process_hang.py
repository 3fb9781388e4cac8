"""`process.hang`: SIGSTOP to a rank, taken back by SIGCONT. Leaves both to the doors and the undo verb.

The rank only brings itself to the point (`notify`): a process that stopped itself could not report it first.
"""

from __future__ import annotations

import signal
from typing import Any, ClassVar

import msgspec

from chaos.doors import ProcessKiller, ProcessReader
from chaos.faults.base import Confirmation
from chaos.model.events import Event
from chaos.model.identity import Life
from chaos.model.undo import Undo


class HangParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing to choose: how long it holds is the fault's `lasts`."""


class ProcessHang:
    """Stops one process as a whole: no thread of it runs until it is resumed or killed."""

    name: ClassVar[str] = "process.hang"
    Params: ClassVar[type[msgspec.Struct]] = HangParams
    summary: ClassVar[str] = "a rank's process stopped (SIGSTOP) for a while, or until NVRx ends it"
    layer: ClassVar[str] = "one process, all threads"
    fidelity: ClassVar[str] = "real"
    ends: ClassVar[str] = "undone"
    certifies: ClassVar[str] = "a rank whose process makes no progress at all is noticed, and the job comes back"
    does_not_certify: ClassVar[str] = (
        "hangs in which some threads of the rank go on, heartbeats among them; hangs in the kernel or on a device"
    )
    needs: ClassVar[tuple[str, ...]] = ("proc", "pidfd")
    touches: ClassVar[tuple[str, ...]] = ()
    usual_layer: ClassVar[str] = "in_job"

    def verb(self, params: HangParams) -> tuple[str, dict[str, Any]]:
        return "notify", {}

    def undo(self, params: HangParams, target: Life) -> Undo | None:
        return Undo(verb="resume_process", args={"life": msgspec.to_builtins(target)})

    def harm(self, params: HangParams, target: Life, killer: ProcessKiller, mark: str) -> None:
        killer.send(target, int(signal.SIGSTOP), mark=mark)

    def looks_right(self, params: HangParams, target: Life, reader: ProcessReader) -> Confirmation:
        stopped = reader.is_stopped(target)
        if stopped:
            return Confirmation(acted=True, how="the process table shows it stopped (state T)")
        # A signal reaches a process in the kernel a moment late, and a process that is gone may have been stopped
        # before: neither shows that the harm failed.
        seen = "it still runs" if stopped is False else "it is gone, and nobody saw it stopped"
        return Confirmation(acted=None, how=seen)

    def took_effect(self, params: HangParams, fired: Event, events: list[Event]) -> Confirmation:
        """Nothing: NVRx resumes a stopped rank before it kills it, so its later events speak for neither side."""
        return Confirmation(acted=None, how="a stop is seen by looking at the process")
