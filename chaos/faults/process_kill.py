"""`process.kill`: a signal that ends a process. Sent by the rank to itself at a step and phase, else through a pidfd.

Leaves sending it to the agent's verb or to the killer handed in.
"""

from __future__ import annotations

import signal
from typing import Any, ClassVar, Literal

import msgspec

from chaos.doors import ProcessKiller
from chaos.faults.base import Confirmation
from chaos.faults.evidence import how_it_ended, lived_on, name_of, of_target_after
from chaos.model.events import Event
from chaos.model.identity import Life
from chaos.model.undo import Undo

# From outside, "fired" is written first and the signal sent next: a step may still end between the two.
OUTSIDE_GRACE_NS = 1_000_000_000


class KillParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which signal. Only those whose default action ends the process."""

    signal: Literal["KILL", "TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "SEGV", "ABRT"] = "KILL"


class ProcessKill:
    """Ends one process. Nothing to take back: the confirmation asks whether that very process died of that signal."""

    name: ClassVar[str] = "process.kill"
    Params: ClassVar[type[msgspec.Struct]] = KillParams
    summary: ClassVar[str] = "a signal that ends a rank's process"
    layer: ClassVar[str] = "one process"
    fidelity: ClassVar[str] = "real"
    ends: ClassVar[str] = "final"
    certifies: ClassVar[str] = "the job comes back when a rank's process dies of this signal at this point"
    does_not_certify: ClassVar[str] = "the loss of the host: memory, disk, network and launcher of that rank stay up"
    needs: ClassVar[tuple[str, ...]] = ("proc", "pidfd")
    touches: ClassVar[tuple[str, ...]] = ()
    usual_layer: ClassVar[str] = "in_job"

    def verb(self, params: KillParams) -> tuple[str, dict[str, Any]]:
        return "signal_self", {"signal": params.signal}

    def undo(self, params: KillParams, target: Life) -> Undo | None:
        return None

    def harm(self, params: KillParams, target: Life, killer: ProcessKiller, mark: str) -> None:
        killer.send(target, _number(params), mark=mark)

    def took_effect(self, params: KillParams, fired: Event, events: list[Event]) -> Confirmation:
        grace_ns = 0 if fired.data.get("verb") == "signal_self" else OUTSIDE_GRACE_NS
        for event in of_target_after(fired, events):
            if lived_on(fired, event) and event.t_ns >= fired.t_ns + grace_ns:
                how = f"the same process went on and did step {event.data.get('step')}"
                return Confirmation(acted=False, how=how, evidence=(event.ref,))
            if event.kind == "process_exited":
                return _judge_exit(params, fired, event, events)
        return Confirmation(acted=None)


def _number(params: KillParams) -> int:
    return int(signal.Signals[f"SIG{params.signal}"])


def _judge_exit(params: KillParams, fired: Event, exited: Event, events: list[Event]) -> Confirmation:
    """The process is gone: of our signal, of something else, or nobody could read of what."""
    number, code = how_it_ended(exited)
    evidence: tuple[str, ...] = (exited.ref,)
    wanted = _number(params)
    if number is None and code is None:
        said = _launcher_says(fired, exited, events)
        if said is None:
            return Confirmation(acted=None, how="the process is gone; its exit status could not be read")
        (number, code), evidence = how_it_ended(said), (exited.ref, said.ref)
    if number == wanted:
        return Confirmation(acted=True, how=f"the process ended by {name_of(wanted)}", evidence=evidence)
    found = name_of(number) if number is not None else f"exit code {code}"
    how = f"the process ended by {found}, not by {name_of(wanted)}"
    return Confirmation(acted=False, how=how, evidence=evidence)


def _launcher_says(fired: Event, exited: Event, events: list[Event]) -> Event | None:
    """The launcher's record of that process: trusted only where the kernel could not be asked."""
    pid = exited.data.get("pid", fired.data.get("pid"))
    for event in events:
        if event.kind == "worker_failed" and event.t_ns >= fired.t_ns and pid and event.data.get("pid") == pid:
            return event if isinstance(event.data.get("code"), int) else None
    return None
