"""Looks at the reference trainer's checkpoints from outside, read-only: is each whole by its own manifest, and does
`latest` point at a whole one? When to look, and what follows from it, is for others to say.

The layout is the trainer's (trainer/checkpoint_store.py): `step-000040/` counts once it has that name, and holds a
manifest with size and checksum of every rank's part. Everything here is read with the job at work beside it: what the
job takes away while it is looked at is no damage.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import msgspec

SCHEMA = "nvrx-chaos-trainer/checkpoint/1"
# All of it is read and hashed: 64 MiB take about a fifth of a second of one core, at the lowest priority.
VERIFIED_BYTES_MAX = 64 << 20
_BLOCK_BYTES = 1 << 20
_COMPLETE = re.compile(r"step-(\d{6,})")
_LOOKS = 3  # at `latest`, which the job may move while its target is looked for


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """`doors.CheckpointLook`."""

    step: int
    path: str
    files: int = 0
    bytes: int = 0
    problem: str = ""
    verified: bool = True


class _Part(msgspec.Struct):
    file: str
    bytes: int
    sha256: str


class _Manifest(msgspec.Struct):
    schema: str
    step: int
    world_size: int
    parts: list[_Part]


class _Damaged(Exception):
    """The message says what is wrong."""


class CheckpointFolder:
    """`doors.CheckpointReader` over one folder; `shown` is how the job itself names it in its events."""

    def __init__(self, root: Path, shown: str, *, verified_bytes_max: int = VERIFIED_BYTES_MAX) -> None:
        self._root, self._shown = root, shown
        self._most = verified_bytes_max

    def steps(self) -> list[int]:
        """Of all checkpoints that have their final name now, ascending. Raises OSError."""
        found = (_COMPLETE.fullmatch(name) for name in os.listdir(self._root))
        return sorted(int(match[1]) for match in found if match)

    def look(self, step: int) -> Look | None:
        """One checkpoint; None when the job took it away meanwhile. Raises OSError where the folder cannot be read."""
        name = f"step-{step:06d}"
        path = self._root / name
        try:
            before = path.stat()
        except FileNotFoundError:
            os.listdir(self._root)  # a folder that cannot be read is no missing checkpoint
            return Look(step=step, path=self._named(name), problem="it is not there")
        sizes = _sizes(path)
        verified = sum(sizes.values()) <= self._most
        try:
            _compare(path, step, sizes, verified=verified)
            problem = self._latest_problem()
        except _Damaged as damage:
            problem = str(damage)
        if problem and not _still_there(path, before):
            return None
        return Look(
            step=step,
            path=self._named(name),
            files=len(sizes),
            bytes=sum(sizes.values()),
            problem=problem,
            verified=verified,
        )

    def _named(self, name: str) -> str:
        return f"{self._shown}/{name}"

    def _latest_problem(self) -> str:
        """What is wrong with `latest`: it must name a checkpoint that is in place. Whether that one is whole is said
        when it is looked at itself."""
        named = ""
        for _ in range(_LOOKS):
            try:
                named = (self._root / "latest").read_text(errors="replace").strip()
            except FileNotFoundError:
                return "`latest` is not there"
            if not _COMPLETE.fullmatch(named):
                return f"`latest` holds {named[:60]!r}, which names no checkpoint"
            if (self._root / named / "manifest.json").is_file():
                return ""
        return f"`latest` names {named}, which is not in place"


def _compare(path: Path, step: int, sizes: dict[str, int], *, verified: bool) -> None:
    manifest = _manifest(path)
    if manifest.schema != SCHEMA:
        raise _Damaged(f"manifest.json: schema {manifest.schema[:60]!r}, not {SCHEMA!r}")
    if manifest.step != step or len(manifest.parts) != manifest.world_size:
        raise _Damaged("manifest.json: does not fit the folder it lies in")
    if [part.file for part in manifest.parts] != [f"rank{rank}.pt" for rank in range(manifest.world_size)]:
        raise _Damaged("manifest.json: does not name one part for each rank")
    for part in manifest.parts:
        if part.file not in sizes:
            raise _Damaged(f"{part.file} is missing")
        if sizes[part.file] != part.bytes:
            raise _Damaged(f"{part.file} has {sizes[part.file]} bytes; the manifest says {part.bytes}")
        if verified and _sha256(path / part.file) != part.sha256:
            raise _Damaged(f"{part.file}: its checksum is not the manifest's")


def _manifest(path: Path) -> _Manifest:
    try:
        return msgspec.json.decode((path / "manifest.json").read_bytes(), type=_Manifest)
    except FileNotFoundError:
        raise _Damaged("manifest.json is missing") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _Damaged("manifest.json is damaged") from None


def _sizes(path: Path) -> dict[str, int]:
    """Name and size of every file; of those that go away meanwhile, nothing."""
    found: dict[str, int] = {}
    try:
        for entry in os.scandir(path):
            found[entry.name] = entry.stat().st_size
    except FileNotFoundError:
        return {}
    return found


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while block := stream.read(_BLOCK_BYTES):
                digest.update(block)
    except FileNotFoundError:
        raise _Damaged(f"{path.name} is missing") from None
    return digest.hexdigest()


def _still_there(path: Path, before: os.stat_result) -> bool:
    """Whether that very folder still has its name: a checkpoint is removed by renaming it first."""
    try:
        now = path.stat()
    except FileNotFoundError:
        return False
    return (now.st_dev, now.st_ino) == (before.st_dev, before.st_ino)
