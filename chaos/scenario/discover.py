"""Paths as given → scenario files. Looks at names and at the schema line only; reading a file is `load.py`'s."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from chaos.errors import NothingToRun
from chaos.scenario.problems import nearest
from chaos.scenario.schema import DEFAULTS_SCHEMA

HEAD_BYTES = 16 * 1024
# Any schema of ours: a line with a slip in it is an error to show, never a file to pass over in silence.
_SCHEMA_LINE = re.compile(rb"^\s*[\"']?schema[\"']?\s*:\s*[\"']?(nvrx-chaos/[^\s\"'#]*)", re.MULTILINE)
_NAMES_SHOWN = 8


def find_files(paths: Iterable[str | Path]) -> list[Path]:
    """The scenario files of the paths, in order, each once. A folder gives its own `*.yaml` files that say they are
    scenarios; a file is taken at its word."""
    files: dict[Path, None] = {}
    given = [Path(path) for path in paths]
    if not given:
        raise NothingToRun("no path given", remedy="nvrx-chaos run scenarios/quick")
    for path in given:
        for file in _files_of(path):
            files.setdefault(file)
    return list(files)


def _files_of(path: Path) -> list[Path]:
    try:
        if path.is_dir():
            return _in_folder(path)
        if path.exists():
            return [path]
    except (OSError, ValueError) as error:
        raise NothingToRun(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    raise NothingToRun(f"{path}: there is no such file or folder{_nearest_name(path)}")


def _in_folder(folder: Path) -> list[Path]:
    files = sorted(file for file in folder.glob("*.yaml") if file.is_file() and _says_scenario(file))
    if files:
        return files
    names = sorted(os.listdir(folder))
    inside = [name for name in names if (folder / name).is_dir() and any((folder / name).glob("*.yaml"))]
    shown = ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")
    raise NothingToRun(
        f"{folder}: no *.yaml file with a line `schema: nvrx-chaos/scenario/1`; found: {shown or 'nothing'}",
        remedy=f"give a folder that holds scenarios, such as {folder / inside[0]}" if inside else None,
    )


def _says_scenario(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            match = _SCHEMA_LINE.search(stream.read(HEAD_BYTES))
    except OSError:
        return True  # unreadable is not empty: let reading it say why
    return match is not None and match[1].decode(errors="replace") != DEFAULTS_SCHEMA


def _nearest_name(path: Path) -> str:
    try:
        return nearest(path.name, [entry.name for entry in path.parent.iterdir()])
    except OSError:
        return ""
