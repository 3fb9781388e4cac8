"""What a finished history must hold: every file with its length and digest, every rank life with its file.

Written once, when every writer has ended. The reader compares; a history without it is never fully trusted.
It also says what the run was judged by: the digests of its plan and of what its fault-free runs did.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos.errors import CannotWrite, NothingToRun

SCHEMA = "nvrx-chaos/manifest/2"
NAME = "MANIFEST.json"
# Beside the history, as they were when the run ended -> the source that is blind when they are others.
JUDGED_BY = {"experiment.json": "plan", "control.jsonl": "control"}
_BLOCK_BYTES = 1 << 20
_UNSEALED = "0" * 64  # stands where the digest of the manifest itself will be


def file_of_life(life: str, source: str = "rank") -> str:
    """`rank-<pid>-<start_ticks>.jsonl` for the life `<boot8>-<pidns>-<pid>-<start_ticks>`."""
    return f"{source}-{'-'.join(life.split('-')[-2:])}.jsonl"


def source_of_file(name: str) -> str:
    """Who writes a file of that name: `rank`, `controller`, or whatever stands before the first dash."""
    return name.split("-", 1)[0].removesuffix(".jsonl")


def measure(path: Path) -> dict[str, Any]:
    """Lines, bytes and SHA-256 of one file. A last line without its line end is counted as a line."""
    digest, size, ends, last = hashlib.sha256(), 0, 0, b"\n"
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
            size += len(block)
            ends += block.count(b"\n")
            last = block[-1:]
    return {"lines": ends + (last != b"\n"), "bytes": size, "sha256": digest.hexdigest()}


def digests_of(run_dir: Path) -> dict[str, str | None]:
    """File -> SHA-256 of what a run is judged by; None where there is no such file."""
    return {
        name: measure(run_dir / name)["sha256"] if (run_dir / name).is_file() else None for name in sorted(JUDGED_BY)
    }


def write(run_dir: Path, *, run_id: str, lives: Sequence[Mapping[str, Any]]) -> Path:
    """Builds `history/MANIFEST.json` over `history/*.jsonl`, atomically and durably.

    `lives` has one record `{life, role, rank, file or None}` for each life that the process table saw.
    """
    folder = run_dir / "history"
    if not folder.is_dir():
        raise NothingToRun(f"{run_dir} holds no history", remedy="give the directory of a run")
    try:
        content = {
            "schema": SCHEMA,
            "sha256": _UNSEALED,
            "run_id": run_id,
            "files": _files(folder, lives),
            "lives": [dict(x) for x in lives],
            "judged_by": digests_of(run_dir),
        }
        return _write_durably(folder, _sealed(json.dumps(content, indent=1) + "\n"))
    except OSError as error:
        raise CannotWrite(f"cannot write the manifest in {folder}: {error.strerror or error}") from error


def _sealed(text: str) -> str:
    return text.replace(_UNSEALED, hashlib.sha256(text.encode()).hexdigest(), 1)


def is_whole(raw: bytes, told: object) -> bool:
    """Whether a manifest's bytes are those that were written. `told`: the digest that it gives of itself."""
    if not isinstance(told, str) or len(told) != len(_UNSEALED):
        return False
    unsealed = raw.replace(told.encode(), _UNSEALED.encode(), 1)
    return hashlib.sha256(unsealed).hexdigest() == told


def _files(folder: Path, lives: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    writers = {str(row["file"]): row.get("life") for row in lives if row.get("file")}
    return [
        {"name": path.name, "life": writers.get(path.name) or _first_life(path), **measure(path)}
        for path in sorted(folder.glob("*.jsonl"))
    ]


def _first_life(path: Path) -> str | None:
    """The writer's own word, for a file that no life of the process table names (only ranks write about themselves)."""
    if source_of_file(path.name) != "rank":
        return None
    with path.open("rb") as stream:
        try:
            life = json.loads(stream.readline()).get("life")
        except (ValueError, AttributeError):
            return None
    return life if isinstance(life, str) else None


def _write_durably(folder: Path, text: str) -> Path:
    target, partial = folder / NAME, folder / (NAME + ".partial")
    with partial.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(target)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)  # the rename itself is durable only once the folder is
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    return target
