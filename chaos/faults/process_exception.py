"""`process.exception`: an exception raised in a rank's training thread. Leaves raising it to the agent's verb."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec

from chaos.faults.base import Confirmation
from chaos.faults.evidence import how_it_ended, name_of, of_target_after, went_on
from chaos.model.events import Event

MARK = "nvrx-chaos: injected by process.exception of "  # everything that the agent raises says who did it


class ExceptionParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which exception. `message` is added to the text that marks it as ours."""

    type: Literal["RuntimeError", "ValueError", "OSError", "MemoryError"] = "RuntimeError"
    message: Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""


class ProcessException:
    """Raised where the rank stands; it ends the training function there, or the job has swallowed it."""

    name: ClassVar[str] = "process.exception"
    Params: ClassVar[type[msgspec.Struct]] = ExceptionParams
    summary: ClassVar[str] = "an exception raised in a rank's training thread"
    layer: ClassVar[str] = "the training function of one process"
    fidelity: ClassVar[str] = "real"
    ends: ClassVar[str] = "final"
    certifies: ClassVar[str] = "the job comes back when the training code of a rank raises at this point"
    does_not_certify: ClassVar[str] = (
        "errors that leave the process or its device context unusable; the process itself stays healthy here"
    )
    needs: ClassVar[tuple[str, ...]] = ("agent",)
    touches: ClassVar[tuple[str, ...]] = ()
    usual_layer: ClassVar[str] = "in_process"

    def verb(self, params: ExceptionParams) -> tuple[str, dict[str, Any]]:
        return "raise_error", {"type": params.type, "message": params.message}

    def took_effect(self, params: ExceptionParams, fired: Event, events: list[Event]) -> Confirmation:
        for event in of_target_after(fired, events):
            if went_on(fired, event):
                how = f"the same process went on and did step {event.data.get('step')} in the same run of its function"
                return Confirmation(acted=False, how=how, evidence=(event.ref,))
            how = self._left_its_function(fired, event)
            if how:
                return Confirmation(acted=True, how=how, evidence=(event.ref,))
            if event.kind == "process_exited" and how_it_ended(event) == (None, 0):
                return Confirmation(acted=False, how="the process ended with exit code 0", evidence=(event.ref,))
        return Confirmation(acted=None)

    @staticmethod
    def _left_its_function(fired: Event, event: Event) -> str:
        """How this event shows that the rank left its training function; empty when it does not."""
        if event.kind == "interruption_reported" and MARK in str(event.data.get("text", "")):
            return "NVRx reported an interruption that carries our mark"
        if event.reentry is not None and fired.reentry is not None and event.reentry > fired.reentry:
            return f"the same process entered its training function again (reentry {event.reentry})"
        if event.kind == "process_exited":
            number, code = how_it_ended(event)
            if number is not None:
                return f"the process ended by {name_of(number)} without a further step"
            if code:
                return f"the process ended with exit code {code} without a further step"
        return ""
