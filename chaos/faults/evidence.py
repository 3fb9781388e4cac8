"""Reads the events around one firing for the faults' confirmations. Leaves to them what an event means.

A firing is judged by its target's own life only: what the others do afterwards is the job's answer, not the harm.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

from chaos.model.events import Event


def of_target_after(fired: Event, events: list[Event]) -> Iterator[Event]:
    """The events about the life that was hit, in order of time, from the firing on."""
    if fired.life is None:
        return
    about = [event for event in events if event.life == fired.life and event.t_ns >= fired.t_ns and event != fired]
    yield from sorted(about, key=lambda event: (event.t_ns, event.file, event.line))


def lived_on(fired: Event, event: Event) -> bool:
    """Whether this event shows the process at work after the firing: the step in which the fault fired or a later
    one was done, or any step after the process entered its training function again."""
    if event.kind != "step_done":
        return False
    reentered = event.reentry is not None and fired.reentry is not None and event.reentry > fired.reentry
    return reentered or _reached(fired, event)


def went_on(fired: Event, event: Event) -> bool:
    """Whether this event shows that the step in which the fault fired, or a later one, was done undisturbed:
    same entry into the training function, same process group."""
    if event.kind != "step_done" or (event.reentry, event.group) != (fired.reentry, fired.group):
        return False
    return _reached(fired, event)


def _reached(fired: Event, event: Event) -> bool:
    """A step before the one of the firing may be reported late; it says nothing."""
    fired_step, step = fired.data.get("step"), event.data.get("step")
    return fired_step is None or (step is not None and step >= fired_step)


def signal_of(raw: object) -> int | None:
    """The number of a signal given as number or name; None where there is none."""
    if isinstance(raw, int) and not isinstance(raw, bool):
        return abs(raw) or None
    if isinstance(raw, str) and raw:
        name = raw.upper() if raw.upper().startswith("SIG") else f"SIG{raw.upper()}"
        return int(signal.Signals[name]) if name in signal.Signals.__members__ else None
    return None


def how_it_ended(event: Event) -> tuple[int | None, int | None]:
    """(signal, exit code) of a `process_exited`; both None when nobody could read them.

    A negative code is the signal, as Python's subprocess and the launcher give it.
    """
    number, code = signal_of(event.data.get("signal")), event.data.get("code")
    if number is None and isinstance(code, int) and code < 0:
        number = -code
    return (number, None) if number is not None else (None, code if isinstance(code, int) else None)


def name_of(number: int) -> str:
    """SIGKILL for 9; the bare number where it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
