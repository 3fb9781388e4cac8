"""Checkpoints as folders: written in parts, published as a whole, checked before they are trusted.

Standard library only: knows no torch, no ranks but their numbers, and not when to save.

    .step-000040.<attempt>/   being written; the attempt keeps a late writer out of a newer try
        rank0.pt  rank0.json  one part for each rank, and its size and checksum once it is durable
        manifest.json         written last, when all parts are there
    step-000040/              the same folder, renamed: a checkpoint that counts
    latest                    the name of the newest one, for people and scripts
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEMA = "nvrx-chaos-trainer/checkpoint/1"
MANIFEST = "manifest.json"
LATEST = "latest"
_COMPLETE = re.compile(r"step-(\d{6,})")


class Damaged(Exception):
    """A checkpoint that must not be loaded; the message says what is wrong with it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """A published checkpoint: the state after `step` steps."""

    step: int
    path: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """A checkpoint that is in place, and how large it is."""

    checkpoint: Checkpoint
    files: int
    bytes: int


def pending_path(root: Path, step: int, attempt: str) -> Path:
    """Where the parts of a checkpoint are gathered."""
    return root / f".step-{step:06d}.{attempt}"


def complete_path(root: Path, step: int) -> Path:
    return root / f"step-{step:06d}"


def write_part(folder: Path, rank: int, content: bytes | memoryview) -> None:
    """Makes one rank's part durable, then says so: the small file is there only when the large one is safe."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"rank{rank}.pt"
    _write_durably(folder / name, content)
    record = {"file": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    _replace_durably(folder / f"rank{rank}.json", record)


def all_parts_written(folder: Path, world_size: int) -> bool:
    return all((folder / f"rank{rank}.json").exists() for rank in range(world_size))


def commit(root: Path, step: int, attempt: str, world_size: int, *, at: Callable[[str], None]) -> Published:
    """Publishes a checkpoint whose parts are all written. `at` is told the points that matter in a crash."""
    pending = pending_path(root, step, attempt)
    parts = [json.loads((pending / f"rank{rank}.json").read_text()) for rank in range(world_size)]
    manifest = {"schema": SCHEMA, "step": step, "world_size": world_size, "parts": parts}
    _replace_durably(pending / MANIFEST, manifest)
    at("before_rename")
    target = complete_path(root, step)
    os.rename(pending, target)
    _sync_folder(root)
    at("after_rename")
    point_latest_at(root, target)
    return measure(Checkpoint(step=step, path=target))


def measure(checkpoint: Checkpoint) -> Published:
    sizes = [entry.stat().st_size for entry in checkpoint.path.iterdir()]
    return Published(checkpoint=checkpoint, files=len(sizes), bytes=sum(sizes))


def point_latest_at(root: Path, target: Path) -> None:
    beside = root / f".{LATEST}.new"
    _write_durably(beside, f"{target.name}\n".encode())
    os.replace(beside, root / LATEST)
    _sync_folder(root)


def latest(root: Path) -> str | None:
    """The name that `latest` holds; None when there is none."""
    try:
        return (root / LATEST).read_text().strip()
    except OSError:
        return None


def complete(root: Path) -> list[Checkpoint]:
    """All published checkpoints, newest first; none of them checked."""
    names = [(_COMPLETE.fullmatch(path.name), path) for path in root.iterdir()] if root.is_dir() else []
    found = [Checkpoint(step=int(match[1]), path=path) for match, path in names if match]
    return sorted(found, key=lambda each: each.step, reverse=True)


def check(checkpoint: Checkpoint, world_size: int) -> None:
    """Raises Damaged unless every part has the size and checksum of the manifest, for this many ranks."""
    manifest = _manifest(checkpoint)
    if manifest["world_size"] != world_size:
        raise Damaged(f"it was saved by {manifest['world_size']} ranks; this group has {world_size}")
    for rank in range(world_size):
        _checked_part(checkpoint, manifest, rank)


def read_part(checkpoint: Checkpoint, rank: int) -> bytes:
    """One rank's part, checked against the manifest. Raises Damaged."""
    return _checked_part(checkpoint, _manifest(checkpoint), rank)


def prune(root: Path, kept: int) -> Iterator[Checkpoint]:
    """Removes all but the newest `kept` checkpoints, yielding each once it is gone."""
    for checkpoint in complete(root)[kept:]:
        # Renamed first: half a removed checkpoint must not look like a damaged one.
        aside = root / f".pruned-{checkpoint.path.name}"
        os.rename(checkpoint.path, aside)
        shutil.rmtree(aside, ignore_errors=True)
        yield checkpoint


def set_aside(root: Path, checkpoint: Checkpoint, attempt: str) -> Path:
    """Keeps a refused checkpoint for people, under a name that a later commit of its step will not need."""
    aside = root / f"refused-{checkpoint.path.name}.{attempt}"
    os.rename(checkpoint.path, aside)
    return aside


def remove_leftovers(root: Path) -> None:
    """Removes what earlier attempts left half done. Only while nobody saves."""
    for path in root.iterdir() if root.is_dir() else ():
        if path.name.startswith((".step-", ".pruned-")):
            shutil.rmtree(path, ignore_errors=True)


def _manifest(checkpoint: Checkpoint) -> dict[str, Any]:
    path = checkpoint.path / MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(path.read_bytes())
        if manifest["schema"] != SCHEMA:
            raise Damaged(f"{MANIFEST}: schema {manifest['schema']!r}, not {SCHEMA!r}")
        if manifest["step"] != checkpoint.step or len(manifest["parts"]) != manifest["world_size"]:
            raise Damaged(f"{MANIFEST}: does not fit the folder it lies in")
    except OSError as error:
        raise Damaged(f"{MANIFEST}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{MANIFEST}: not readable: {error!r}") from error
    return manifest


def _checked_part(checkpoint: Checkpoint, manifest: dict[str, Any], rank: int) -> bytes:
    part = manifest["parts"][rank]
    name = f"rank{rank}.pt"
    try:
        content = (checkpoint.path / name).read_bytes()
    except OSError as error:
        raise Damaged(f"{name}: {error.strerror or error}") from error
    if len(content) != part["bytes"]:
        raise Damaged(f"{name}: {len(content)} bytes; the manifest says {part['bytes']}")
    if hashlib.sha256(content).hexdigest() != part["sha256"]:
        raise Damaged(f"{name}: its checksum is not the manifest's")
    return content


def _write_durably(path: Path, content: bytes | memoryview) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _replace_durably(path: Path, record: dict[str, Any]) -> None:
    beside = path.with_name(f".{path.name}.new")
    _write_durably(beside, (json.dumps(record, indent=1) + "\n").encode())
    os.replace(beside, path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
