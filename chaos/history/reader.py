"""A run's history as one stream of events, and what of it cannot be trusted.

Compares every file with the manifest and looks at every line. Judges nothing: what blindness means for a check
is decided in `judge/`. `source_blind` events are events like others and are left to the judge, too.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from chaos.errors import CannotWrite, NothingToRun
from chaos.history.manifest import NAME, SCHEMA, file_of_life, measure, source_of_file
from chaos.model.events import HEADER, KINDS, Blind, Event

_REASONS_PER_FILE = 3  # a file of pure garbage gives three reasons and a count, not a million
_HEADER = frozenset(HEADER)


@dataclass(frozen=True, kw_only=True)
class History:
    """The history of one run directory. `events()` may be called again and gives the same."""

    run_dir: Path
    files: tuple[Path, ...]
    blind: tuple[Blind, ...]

    def events(self) -> Iterator[Event]:
        """All readable events, files merged by time; inside a file the order is by line."""
        streams = [_timed(path) for path in self.files]
        for _, event in heapq.merge(*streams, key=lambda timed: (timed[0], timed[1].file, timed[1].line)):
            yield event


def read(run_dir: Path) -> History:
    """Raises NothingToRun where there is no history, CannotWrite where its folder cannot be read."""
    folder = run_dir / "history"
    try:
        if not folder.is_dir():
            raise NothingToRun(f"{run_dir} holds no history", remedy="give the directory of a run")
        names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".jsonl"))
    except OSError as error:
        raise CannotWrite(f"cannot read {folder}: {error.strerror or error}") from error
    manifest, blind = _manifest(folder / NAME)
    found: list[Blind] = list(blind)
    readable = []
    for name in names:
        reasons, opened = _look_at(folder / name, _entry(manifest, name))
        found += reasons
        if opened:
            readable.append(folder / name)
    if manifest is not None:
        found += _missing(manifest, set(names))
    return History(run_dir=run_dir, files=tuple(readable), blind=tuple(found))


# --- the manifest


def _manifest(path: Path) -> tuple[Mapping[str, Any] | None, list[Blind]]:
    def blind(reason: str) -> tuple[None, list[Blind]]:
        return None, [Blind(source="manifest", reason=reason, file=NAME)]

    try:
        raw = msgspec.json.decode(path.read_bytes())
    except FileNotFoundError:
        return blind(f"{NAME} is missing: nothing says whether the history is whole")
    except OSError as error:
        return blind(f"{NAME} cannot be read: {error.strerror or error}")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return blind(f"{NAME} is damaged")
    if not isinstance(raw, dict):
        return blind(f"{NAME} is damaged")
    if raw.get("schema") != SCHEMA:
        return blind(f"{NAME} has schema {raw.get('schema')!r}; this version reads {SCHEMA}")
    if not _well_formed(raw):
        return blind(f"{NAME} is damaged")
    return raw, []


def _well_formed(raw: Mapping[str, Any]) -> bool:
    files, lives = raw.get("files"), raw.get("lives")
    if not isinstance(files, list) or not isinstance(lives, list):
        return False
    sound = all(
        isinstance(row, dict)
        and isinstance(row.get("name"), str)
        and isinstance(row.get("lines"), int)
        and isinstance(row.get("bytes"), int)
        and isinstance(row.get("sha256"), str)
        for row in files
    )
    return sound and all(isinstance(row, dict) and isinstance(row.get("life"), str) for row in lives)


def _entry(manifest: Mapping[str, Any] | None, name: str) -> Mapping[str, Any] | None:
    if manifest is None:
        return None
    # a file that the manifest does not know: an entry of nothing, so that its comparison says so
    return next((row for row in manifest["files"] if row["name"] == name), {})


def _missing(manifest: Mapping[str, Any], present: set[str]) -> list[Blind]:
    """Files that the manifest has and the folder has not; rank lives that never had a file."""
    found = []
    ranks = {row["life"]: row.get("rank") for row in manifest["lives"]}
    listed = {row["name"] for row in manifest["files"]}
    for row in manifest["files"]:
        if row["name"] not in present:
            life = row.get("life")
            reason = f"{row['name']} is missing from line 1 on; the manifest has {row['lines']} lines"
            found.append(_blind(row["name"], reason, life=life, rank=ranks.get(life)))
    for row in manifest["lives"]:
        name = row.get("file")
        if row.get("role") == "rank" and (not name or name not in listed):
            want = name or file_of_life(row["life"])
            reason = f"rank {row.get('rank')}, life {row['life']}, was seen but {want} was never there, not even line 1"
            found.append(Blind(source="rank", reason=reason, file=want, life=row["life"], rank=row.get("rank")))
    if not any(source_of_file(name) == "controller" for name in listed):
        reason = "the manifest names no file of the controller, so not even line 1 of it is there"
        found.append(Blind(source="controller", reason=reason))
    return found


# --- one file


def _look_at(path: Path, entry: Mapping[str, Any] | None) -> tuple[list[Blind], bool]:
    """Why this file cannot be trusted (empty: it can), and whether it can be opened at all."""
    life, rank, hidden = None, None, 0
    reasons: list[str] = []
    try:
        for line, event in _lines(path):
            if isinstance(event, Event):
                life, rank = life or event.life, event.rank if rank is None else rank
                if event.kind not in KINDS:
                    event = f"has an event of unknown kind {event.kind!r}"
                else:
                    continue
            if len(reasons) < _REASONS_PER_FILE:
                reasons.append(f"{path.name} line {line} {event}")
            else:
                hidden += 1
        reasons += _against(path, entry)
    except OSError as error:
        return [_blind(path.name, f"{path.name} cannot be read from line 1 on: {error.strerror or error}")], False
    if hidden:
        reasons.append(f"{path.name} has {hidden} more lines that cannot be read")
    return [_blind(path.name, reason, life=life, rank=rank) for reason in reasons], True


def _against(path: Path, entry: Mapping[str, Any] | None) -> list[str]:
    """How the file differs from its line in the manifest."""
    if entry is None:
        return []
    if not entry:
        return [f"{path.name} is not in the manifest: nothing says whether line 1 and on are whole"]
    now = measure(path)
    lines, want = now["lines"], entry["lines"]
    if now["bytes"] < entry["bytes"]:
        # the last line that is there may itself be cut: then it is the first one that is not whole
        first = lines + 1 if lines < want and _ends_whole(path) else max(lines, 1)
        return [f"{path.name} is cut: whole only before line {first}, the manifest has {want} lines"]
    if now["bytes"] > entry["bytes"]:
        return [f"{path.name} grew after the manifest was made: {lines} lines, the manifest has {want}; line 1 and on"]
    if now["sha256"] != entry["sha256"]:
        return [f"{path.name} was altered somewhere from line 1 to line {lines}: its digest is not the manifest's"]
    return []


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as stream:
        stream.seek(0, 2)
        if stream.tell() == 0:
            return True
        stream.seek(-1, 2)
        return stream.read(1) == b"\n"


def _lines(path: Path) -> Iterator[tuple[int, Event | str]]:
    """Line number and its event, or what is wrong with that line."""
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.endswith(b"\n"):
                yield number, "is cut: it has no line end"
            else:
                yield number, _event(line, path.name, number) or "is not an event"


def _event(line: bytes, name: str, number: int) -> Event | None:
    try:
        raw = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not isinstance(raw, dict) or not _header_is_sound(raw):
        return None
    return Event(
        t_ns=raw["t_ns"], wall_s=float(raw["wall_s"]), kind=raw["kind"], life=raw.get("life"),
        reentry=raw.get("reentry"), group=raw.get("group"), rank=raw.get("rank"), initial_rank=raw.get("initial_rank"),
        data={key: value for key, value in raw.items() if key not in _HEADER}, file=name, line=number,
    )  # fmt: skip


def _header_is_sound(raw: Mapping[str, Any]) -> bool:
    numbers = all(_is_int_or_none(raw.get(key)) for key in ("reentry", "rank", "initial_rank"))
    words = all(raw.get(key) is None or isinstance(raw[key], str) for key in ("life", "group"))
    times = _is_int_or_none(raw.get("t_ns", "")) and raw.get("t_ns") is not None
    wall = isinstance(raw.get("wall_s"), int | float) and not isinstance(raw.get("wall_s"), bool)
    return numbers and words and times and wall and isinstance(raw.get("kind"), str)


def _is_int_or_none(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool))


def _timed(path: Path) -> Iterator[tuple[int, Event]]:
    """Events of known kinds, each with a time that never runs back in its file: two threads of one writer may
    take their times in one order and write in the other, and inside a file the line decides."""
    latest = 0
    for _, event in _lines(path):
        if isinstance(event, Event) and event.kind in KINDS:
            latest = max(latest, event.t_ns)
            yield latest, event


def _blind(name: str, reason: str, *, life: str | None = None, rank: int | None = None) -> Blind:
    source = source_of_file(name)
    return Blind(source=source, reason=reason, file=name, life=life if source == "rank" else None, rank=rank)
