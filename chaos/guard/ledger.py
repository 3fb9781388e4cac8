"""The ledger: what is to be undone, on disk before the harm. One JSON line per happening, only ever appended.

Its one writer is the watchdog (its successors: the guard when the watchdog died, `heal` later). A line is
`began`, `open`, `step` or `closed`. The reader copes with a file cut at any byte: a harm begins only after its
`open` line is whole on disk, so a torn `open` was never followed by harm, and a torn `closed` means undoing twice.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from chaos.clock import Clock
from chaos.errors import CannotWrite
from chaos.model.undo import Undo, Undone


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One intended undo. `undone` is set once it is closed.

    `opened_ticks`: boot ticks at its opening, on the scale of start ticks. `limit_s`: a held fault's time limit.
    """

    id: str
    boot_id: str
    opened_ticks: int
    opened_ns: int
    undo: Undo
    fault: str | None = None
    limit_s: float | None = None
    undone: Undone | None = None

    @property
    def is_open(self) -> bool:
        return self.undone is None


class LedgerContent(msgspec.Struct, frozen=True, kw_only=True):
    """What a ledger file says. `unreadable`: numbers of lines that are whole, yet say nothing that we know."""

    entries: tuple[Entry, ...] = ()
    unreadable: tuple[int, ...] = ()

    @property
    def open_entries(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.is_open)


_HELD, _ORDERS, _JOBS, _PATHS = range(4)
_TURN = {"resume_process": _HELD, "disarm": _ORDERS, "stop_job": _JOBS, "remove_path": _PATHS}


def in_undo_order(entries: Iterable[Entry]) -> list[Entry]:
    """What holds a process first, then orders, then the job, then paths; the newest first among equals."""
    newest_first = sorted(entries, key=lambda entry: entry.opened_ns, reverse=True)
    return sorted(newest_first, key=lambda entry: _TURN[entry.undo.verb])


class LedgerWriter:
    """Appends lines; a call that returned is on disk. Not for two threads at one time."""

    def __init__(self, path: Path, *, boot_id: str, clock: Clock) -> None:
        """Raises CannotWrite when the file cannot be opened."""
        self._path = path
        self._boot_id = boot_id
        self._clock = clock
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._torn = not _ends_with_newline(self._handle)
            _sync_folder(path.parent)
        except OSError as problem:
            raise self._cannot(problem) from None

    def began(self, run_id: str) -> None:
        """A writer took over this ledger."""
        self._append({"op": "began", "run_id": run_id, "pid": os.getpid()})

    def opened(self, entry: Entry) -> None:
        """The entry is on disk; only now may harm be done."""
        self._append({"op": "open", "entry": msgspec.to_builtins(entry)})

    def step(self, entry_id: str, what: str, **detail: Any) -> None:
        """Something that happened on the way, for people."""
        self._append({"op": "step", "id": entry_id, "what": what, **detail})

    def closed(self, entry_id: str, undone: Undone) -> None:
        """It is undone, and measured."""
        self._append({"op": "closed", "id": entry_id, "undone": msgspec.to_builtins(undone)})

    def close(self) -> None:
        """Lets go of the file."""
        os.close(self._handle)

    def _append(self, fields: dict[str, Any]) -> None:
        stamped = {
            "t_ns": self._clock.monotonic_ns(),
            "wall_s": self._clock.wall_s(),
            "boot_id": self._boot_id,
            **fields,
        }
        if self._torn:
            stamped["after_torn"] = True
        line = msgspec.json.encode(stamped) + b"\n"
        if self._torn:
            line = b"\n" + line  # what stands there was cut off; ours must not become part of it
        try:
            written = os.write(self._handle, line)
            if written != len(line):
                self._torn = True
                raise OSError(28, "only a part could be written (disk full?)")
            os.fsync(self._handle)
        except OSError as problem:
            raise self._cannot(problem) from None
        self._torn = False

    def _cannot(self, problem: OSError) -> CannotWrite:
        return CannotWrite(
            f"the ledger cannot be written: {self._path}: {problem.strerror}; nothing was injected",
            remedy="free some space on that disk, or set NVRX_CHAOS_HOME to a folder on another local one",
        )


def read_ledger(path: Path) -> LedgerContent:
    """A ledger that does not exist has no entries. Raises CannotWrite when it is there and cannot be read."""
    try:
        # A device or a pipe in its place might never end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise CannotWrite(f"the ledger is not a plain file: {path}", remedy="look at what put it there")
        text = path.read_bytes()
    except FileNotFoundError:
        return LedgerContent()
    except OSError as problem:
        raise CannotWrite(
            f"the ledger cannot be read: {path}: {problem.strerror}", remedy="run as the user that made it"
        ) from None
    entries: dict[str, Entry] = {}
    unreadable = []
    suspect: int | None = None  # a line that says nothing: torn if it is the last, or the next writer saw it so
    for number, line in enumerate(text.split(b"\n"), start=1):
        if not line:
            continue
        try:
            fields = msgspec.json.decode(line, type=dict[str, Any])
            after_torn = _take_in(entries, fields)
        except (msgspec.DecodeError, msgspec.ValidationError, ValueError, KeyError, TypeError):
            unreadable += [] if suspect is None else [suspect]
            suspect = number
            continue
        if suspect is not None and not after_torn:
            unreadable.append(suspect)
        suspect = None
    return LedgerContent(entries=tuple(entries.values()), unreadable=tuple(unreadable))


def _take_in(entries: dict[str, Entry], line: dict[str, Any]) -> bool:
    """Whether this line's writer found a torn one before it."""
    operation = line["op"]
    if operation == "open":
        entry = msgspec.convert(line["entry"], Entry)
        entries[entry.id] = entry
    elif operation == "closed":
        undone = msgspec.convert(line["undone"], Undone)
        entries[line["id"]] = msgspec.structs.replace(entries[line["id"]], undone=undone)
    elif operation not in ("began", "step"):
        raise ValueError(f"unknown operation {operation!r}")
    return bool(line.get("after_torn"))


def _ends_with_newline(handle: int) -> bool:
    size = os.fstat(handle).st_size
    return size == 0 or os.pread(handle, 1, size - 1) == b"\n"


def _sync_folder(folder: Path) -> None:
    """A new file is only there after a power cut when its folder was synced too."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
