"""Whether an earlier run left something on this host that nobody looks after any more. Looks only."""

from __future__ import annotations

from pathlib import Path

import msgspec

from chaos.errors import CannotWrite, HostDirty
from chaos.guard.home import RunFolder, home_path, is_held, run_folders
from chaos.guard.ledger import Entry, read_ledger


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """One run's folder as it stands. `live`: its watchdog (or whoever succeeded it) holds the lock.

    `unreadable`: why its ledger cannot be relied on; empty when it can.
    """

    folder: RunFolder
    live: bool
    open_entries: tuple[Entry, ...] = ()
    unreadable: str = ""

    @property
    def dirty(self) -> bool:
        return not self.live and bool(self.open_entries or self.unreadable)


def run_states(home: Path | None = None) -> list[RunState]:
    """Every run that has a folder in the home. Raises CannotWrite when the home cannot be read."""
    home = home or home_path()
    try:
        return [_state(folder) for folder in run_folders(home)]
    except OSError as problem:
        raise CannotWrite(
            f"{home} cannot be read ({problem.strerror}), so nobody can say whether an earlier run left something",
            remedy="run as the user that owns it",
        ) from None


def check(home: Path | None = None) -> None:
    """Raises HostDirty when an entry is open whose lock nobody holds. A run that is live beside us is not dirty."""
    dirty = [state for state in run_states(home) if state.dirty]
    if dirty:
        raise HostDirty(
            "an earlier run left something here that nobody looks after: " + "; ".join(map(_named, dirty)),
            remedy="nvrx-chaos heal",
        )


def _state(folder: RunFolder) -> RunState:
    # The lock is asked for first: a run that ends between the two looks is then seen with its closed entries.
    live = is_held(folder.lock)
    try:
        content = read_ledger(folder.ledger)
    except CannotWrite as problem:
        return RunState(folder=folder, live=live, unreadable=problem.message)
    damaged = ", ".join(map(str, content.unreadable))
    return RunState(
        folder=folder,
        live=live,
        open_entries=content.open_entries,
        unreadable=_damage(folder, damaged) if damaged else "",
    )


def _damage(folder: RunFolder, lines: str) -> str:
    return f"{folder.ledger}: damaged line(s) {lines}: look at what they meant, then remove that folder by hand"


def _named(state: RunState) -> str:
    entries = [f"{entry.id} ({entry.undo.verb}{f', fault {entry.fault}' if entry.fault else ''})"
               for entry in state.open_entries]  # fmt: skip
    return f"run {state.folder.run_id}: {', '.join([*entries, *filter(None, [state.unreadable])])}"
