"""Finds the text to learn and reads it as bytes. Knows no torch; batches are made in `data.py`."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path


class NoText(ValueError):
    """The text asked for cannot be read, or is too short; the message names the path."""


def read(place: Path | None, *, bytes_max: int, bytes_min: int) -> bytes:
    """The first `bytes_max` bytes of the text: the same on every rank, because files are taken in sorted order."""
    text = bytearray()
    for path in _files(place):
        text += _content(path, bytes_max - len(text))
        if len(text) >= bytes_max:
            break
    if len(text) < bytes_min:
        raise NoText(f"{place or 'the standard library'}: {len(text)} bytes of text; at least {bytes_min} are needed")
    return bytes(text)


def _files(place: Path | None) -> Iterator[Path]:
    if place is None:
        # Top level only: 200 files are plenty, and a walk of the whole tree would slow every start.
        yield from sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    elif place.is_dir():
        yield from sorted(path for path in place.rglob("*") if path.is_file())
    else:
        yield place


def _content(path: Path, bytes_max: int) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(bytes_max)
    except OSError as error:
        raise NoText(f"{path}: {error.strerror or error}") from error
