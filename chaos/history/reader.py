"""A run's history as one stream of events, and what of it cannot be trusted.

Compares every file with the manifest and looks at every line. Judges nothing: what blindness means for a check
is decided in `judge/`. `source_blind` events are events like others and are left to the judge, too.

One file is open at a time, and no more than a line of it is held: a run may have thousands of ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

import msgspec

from chaos.errors import CannotWrite, NothingToRun
from chaos.history.manifest import JUDGED_BY, NAME, SCHEMA, digests_of, file_of_life, is_whole, measure, source_of_file
from chaos.model.events import HEADER, KINDS, PASSED, Blind, Event, is_routine

_REASONS_PER_FILE = 3  # a file of pure garbage gives three reasons and a count, not a million
_HEADER = frozenset(HEADER)
_LONGEST_LINE = 1 << 20  # bytes; what has no line end by then is no event
_TIME_MAX = 1 << 62


class History:
    """The history of one run directory. `events()` may be called again and gives the same."""

    def __init__(self, run_dir: Path, names: list[str], manifest: Mapping[str, Any] | None, found: list[Blind]) -> None:
        self.run_dir = run_dir
        self._names = names
        # None: without a manifest no file is compared
        self._entries = None if manifest is None else {row["name"]: row for row in manifest["files"]}
        self._found = tuple(found)
        self._of_files: tuple[Blind, ...] | None = None

    @property
    def blind(self) -> tuple[Blind, ...]:
        """What cannot be trusted. Looks at every line, unless `events()` has been gone through before."""
        if self._of_files is None:
            for _ in self.events(skip_routine=True):
                pass
        return self._found + (self._of_files or ())

    def events(self, *, skip_routine: bool = False) -> Iterator[Event]:
        """All readable events, file after file, each in order of its lines. `skip_routine`: without those that every
        step has and that no verdict looks at for themselves. A `step_done` says with `passed` what came before it."""
        of_files: list[Blind] = []
        for name in self._names:
            if self._entries is not None and name not in self._entries:
                # What it holds may be of another run, so it is not even heard.
                reason = f"{name} is not in the manifest, line 1 and on: it is another run's, or was written afterwards"
                of_files.append(_blind(name, reason))
                continue
            entry = None if self._entries is None else self._entries[name]
            yield from _File(self.run_dir / "history" / name, entry).read(of_files, skip_routine)
        self._of_files = tuple(of_files)


def read(run_dir: Path, *, run_id: str | None = None) -> History:
    """`run_id`: whose history it has to be, where that is known. Raises NothingToRun where there is no history,
    CannotWrite where its folder cannot be read."""
    folder = run_dir / "history"
    try:
        if not folder.is_dir():
            raise NothingToRun(f"{run_dir} holds no history", remedy="give the directory of a run")
        there = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".jsonl"))
    except OSError as error:
        raise CannotWrite(f"cannot read {folder}: {error.strerror or error}") from error
    names = [name for name in there if _is_text(name) and not _is_odd(folder / name)]
    manifest, found = _manifest(folder / NAME)
    found += [
        _blind(name, f"{name} cannot be read: it is no plain file")
        for name in there
        if _is_text(name) and name not in names
    ]
    found += [_blind(ascii(name), f"{name!a} is no file of a history") for name in there if not _is_text(name)]
    if manifest is not None:
        found += _of_another_run(manifest, run_id)  # first: it explains all that follows
        found += _missing(manifest, set(names))
        found += _judged_by_others(run_dir, manifest)
    return History(run_dir, names, manifest, found)


def _is_odd(path: Path) -> bool:
    """What is neither a file nor nothing might keep its reader waiting for ever."""
    return path.exists() and not path.is_file()


def _is_text(name: str) -> bool:
    """A name of bytes that are no text could be cited nowhere; none of ours is like that."""
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


# --- the manifest


def _manifest(path: Path) -> tuple[Mapping[str, Any] | None, list[Blind]]:
    def blind(reason: str) -> tuple[None, list[Blind]]:
        return None, [Blind(source="manifest", reason=reason, file=NAME)]

    if _is_odd(path):
        return blind(f"{NAME} is no plain file")
    try:
        text = path.read_bytes()
        raw = msgspec.json.decode(text)
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
    if not is_whole(text, raw.get("sha256")):
        return blind(f"{NAME} was altered: its digest is not its own")
    return raw, []


def _well_formed(raw: Mapping[str, Any]) -> bool:
    files, lives = raw.get("files"), raw.get("lives")
    if not isinstance(files, list) or not isinstance(lives, list):
        return False
    if not isinstance(raw.get("run_id"), str) or not isinstance(raw.get("judged_by", {}), dict):
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


def _of_another_run(manifest: Mapping[str, Any], run_id: str | None) -> list[Blind]:
    told = manifest.get("run_id")
    if run_id is None or told == run_id:
        return []
    reason = f"files of two runs are mixed: the history's {NAME} is of run {told}, experiment.json of run {run_id}"
    return [Blind(source="manifest", reason=reason, file=NAME)]


def _judged_by_others(run_dir: Path, manifest: Mapping[str, Any]) -> list[Blind]:
    """Plan and fault-free runs that are not those of the run. (Older manifests do not name them.)"""
    told = manifest.get("judged_by")
    if told is None:
        return []
    try:
        now = digests_of(run_dir)
    except OSError as error:
        return [Blind(source="manifest", reason=f"what the run is judged by cannot be read: {error.strerror or error}")]
    found = []
    for name, source in JUDGED_BY.items():
        if now[name] != told.get(name):
            was = "was not there when the run ended" if told.get(name) is None else "was altered after the run"
            what = "is not there any more" if now[name] is None else was
            found.append(Blind(source=source, reason=f"{name} {what}", file=name))
    return found


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
    controllers = sorted(name for name in listed if source_of_file(name) == "controller")
    if not controllers:
        reason = "the manifest names no file of the controller, so not even line 1 of it is there"
        found.append(Blind(source="controller", reason=reason))
    elif len(controllers) > 1:
        reason = f"files of two runs are mixed: each has one controller, here are {', '.join(controllers[:3])}"
        found.append(Blind(source="manifest", reason=reason, file=NAME))
    return found


# --- one file


class _Line(msgspec.Struct, frozen=True):
    """What is looked at in every line; a line that does not fit is no event."""

    t_ns: int
    wall_s: float
    kind: str
    life: str | None = None
    reentry: int | None = None
    group: str | None = None
    rank: int | None = None
    initial_rank: int | None = None
    phase: str | None = None
    step: Any = None


_DECODER = msgspec.json.Decoder(_Line)


class _File:
    """Reads one file to its end and says what of it cannot be trusted."""

    def __init__(self, path: Path, entry: Mapping[str, Any] | None) -> None:
        self._path, self._entry = path, entry
        self._name = path.name
        self._reasons: list[str] = []
        self._hidden = 0
        self._life: str | None = None
        self._rank: int | None = None
        self._step: Any = None  # the step whose phases are gone through now, and which of them it has entered
        self._passed = 0

    def read(self, blind: list[Blind], skip_routine: bool) -> Iterator[Event]:
        """The events of the file; what is wrong with it is put into `blind` at its end."""
        try:
            with self._path.open("rb") as stream:
                yield from self._events(stream, skip_routine)
            reasons = self._reasons + _against(self._path, self._entry)
        except OSError as error:
            reasons = [f"{self._name} cannot be read from line 1 on: {error.strerror or error}"]
        if self._hidden:
            reasons.append(f"{self._name} has {self._hidden} more lines that cannot be read")
        blind += [_blind(self._name, reason, life=self._life, rank=self._rank) for reason in reasons]

    def _events(self, stream: IO[bytes], skip_routine: bool) -> Iterator[Event]:
        # As far as they are of a length that a line can have: a file without line ends must not fill the memory.
        for number, line in enumerate(iter(partial(stream.readline, _LONGEST_LINE), b""), start=1):
            if not line.endswith(b"\n"):
                self._refuse(number, "is cut: it has no line end")
                continue
            try:
                seen = _DECODER.decode(line)
                routine = is_routine(seen.kind, seen.phase)
                raw = {} if routine and skip_routine else msgspec.json.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._refuse(number, "is not an event")
                continue
            if not -_TIME_MAX < seen.t_ns < _TIME_MAX:
                self._refuse(number, "is not an event: its time is none")
                continue
            if seen.kind not in KINDS:
                self._refuse(number, f"has an event of unknown kind {seen.kind[:60]!r}")
                continue
            self._life = self._life or seen.life
            self._rank = seen.rank if self._rank is None else self._rank
            if routine:
                self._pass(seen)
            if raw:
                yield self._event(seen, raw, number)

    def _pass(self, seen: _Line) -> None:
        if seen.step != self._step:
            self._step, self._passed = seen.step, 0
        self._passed |= PASSED.get(seen.kind, 0) | PASSED.get(seen.phase or "", 0)

    def _event(self, seen: _Line, raw: dict[str, Any], number: int) -> Event:
        data = {key: value for key, value in raw.items() if key not in _HEADER}
        if seen.kind == "step_done":
            data["passed"] = self._passed if seen.step == self._step else 0
            self._step = None
        return Event(
            t_ns=seen.t_ns, wall_s=seen.wall_s, kind=seen.kind, life=seen.life, reentry=seen.reentry,
            group=seen.group, rank=seen.rank, initial_rank=seen.initial_rank, data=data, file=self._name, line=number,
        )  # fmt: skip

    def _refuse(self, number: int, what: str) -> None:
        if len(self._reasons) < _REASONS_PER_FILE:
            self._reasons.append(f"{self._name} line {number} {what}")
        else:
            self._hidden += 1


def _against(path: Path, entry: Mapping[str, Any] | None) -> list[str]:
    """How the file differs from its line in the manifest."""
    if entry is None:
        return []
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


def _blind(name: str, reason: str, *, life: str | None = None, rank: int | None = None) -> Blind:
    source = source_of_file(name)
    return Blind(source=source, reason=reason, file=name, life=life if source == "rank" else None, rank=rank)
