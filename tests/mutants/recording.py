"""Recorded runs as small files: what a verdict rests on, packed, without the names of the machine they were made on."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

from chaos.conclude import CONTROL, EXPERIMENT
from chaos.history import manifest, reader

FOLDER = Path(__file__).resolve().parent / "recordings"
SIZE_MAX = 60_000  # bytes of one recording: they are committed
# How a path of the machine stands in a line; what every Linux has tells nothing of it.
_A_PLACE = re.compile(rb"""(?:^|[\s"'=(:\[])/(?!dev/|proc/|sys/)[a-z]+/.{0,60}""")


def packed(name: str) -> Path:
    return FOLDER / f"{name}.tar.xz"


def unpack(name: str, into: Path) -> Path:
    """The recording as a run directory."""
    into.mkdir(parents=True)
    with tarfile.open(packed(name)) as archive:
        archive.extractall(into, filter="data")
    return into


def pack(name: str, run_dir: Path, scratch: Path, *, places: Iterable[Path]) -> int:
    """Packs a run that the reader trusts; returns the size. `places`: folders that get a word instead of their path."""
    blind = reader.read(run_dir).blind
    assert not blind, f"{run_dir} cannot be trusted itself: {blind[0].reason}"
    (scratch / "history").mkdir(parents=True)
    words = _words(run_dir, places)
    for file in (EXPERIMENT, CONTROL, *(f"history/{path.name}" for path in (run_dir / "history").glob("*.jsonl"))):
        if (run_dir / file).exists():
            (scratch / file).write_bytes(_neutral((run_dir / file).read_bytes(), words))
    _remake_manifest(run_dir, scratch)
    FOLDER.mkdir(exist_ok=True)
    with tarfile.open(packed(name), "w:xz", preset=9) as archive:
        for path in sorted(scratch.rglob("*")):
            if path.is_file():
                _put(archive, str(path.relative_to(scratch)), path.read_bytes())
    shutil.rmtree(scratch)
    return packed(name).stat().st_size


def _words(run_dir: Path, places: Iterable[Path]) -> dict[bytes, bytes]:
    repository = Path(__file__).resolve().parents[2]
    known = {
        str(run_dir): f"RUN/{run_dir.name}",  # the run's own name stays: the reader holds plan and history to it
        sys.executable: "python",
        sys.prefix: "ENVIRONMENT",
        sys.base_prefix: "PYTHON",
        str(repository): "REPOSITORY",
        **{str(place): "OUT" for place in places},
    }
    return {path.encode(): known[path].encode() for path in sorted(known, key=len, reverse=True)}


def _neutral(content: bytes, words: dict[bytes, bytes]) -> bytes:
    for path, word in words.items():
        content = content.replace(path, word)
    left = _A_PLACE.search(content)
    assert left is None, f"a path of this machine is left: {left.group()!r}"
    return content


def _remake_manifest(run_dir: Path, scratch: Path) -> None:
    """The lines are the same, their words are not: each file has another digest now."""
    described = json.loads((run_dir / "history" / manifest.NAME).read_text())
    manifest.write(scratch, run_id=described["run_id"], lives=described["lives"])


def _put(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
