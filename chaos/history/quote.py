"""Lines of a run's files by their numbers: what evidence names, and the last ones. Understands none of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from chaos.model.evidence import FOLDER

_REF = re.compile(r"(?P<file>[\w.-]+(?:/[\w.-]+)*):(?P<line>[1-9]\d{0,9})")
KEPT = FOLDER
FOLDERS = ("logs", KEPT)  # whose files are named with their folder; the history's are named without
WHOLE_FILES = ("control.jsonl",)
BEFORE, AFTER = 2, 6  # lines around the one named, in files that people read; an event stands alone
LINE_LENGTH_MAX = 400
FILE_BYTES_MAX = 64 << 20  # lines beyond are not looked for: a page must not take minutes
_BLOCK_BYTES = 1 << 20
_TAIL_BYTES = 64 << 10
KEPT_BYTES_MAX = 64 << 10  # of one file; the rest is in the file
_KINDS = ("stacks", "sockets", "state")


def quoted(run_dir: Path, refs: Iterable[str]) -> dict[str, str]:
    """`FILE:LINE` -> that line, with those around it in logs and stacks. What cannot be found is left out."""
    wanted: dict[str, dict[str, int]] = {}
    for ref in refs:
        found = _REF.fullmatch(ref)
        if found is not None:
            wanted.setdefault(found["file"], {})[ref] = int(found["line"])
    quotes: dict[str, str] = {}
    for file, lines in wanted.items():
        path = _path(run_dir, file)
        if path is not None:
            quotes |= _quotes(path, lines, alone="/" not in file)
    return quotes


def last_lines(path: Path, count: int) -> list[tuple[int, str]]:
    """The last whole lines with their numbers, oldest first. Raises OSError."""
    ends, kept = 0, b""
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            ends += block.count(b"\n")
            kept = (kept + block)[-_TAIL_BYTES:]
    lines = kept.split(b"\n")[:-1]  # after the last line end stands nothing, or a line that is being written
    lines = lines[-count:] if len(lines) > count else lines[1:] if ends > len(lines) else lines
    first = ends - len(lines) + 1
    return [(first + place, line.decode("utf-8", "replace")) for place, line in enumerate(lines)]


def _path(run_dir: Path, file: str) -> Path | None:
    """Only what lies in the run directory: a reference is text from a verdict."""
    folder, _, name = file.rpartition("/")
    if name.startswith(".") or (folder and folder not in FOLDERS):
        return None
    return run_dir / file if folder or file in WHOLE_FILES else run_dir / "history" / file


def _quotes(path: Path, lines: Mapping[str, int], *, alone: bool) -> dict[str, str]:
    before, after = (0, 0) if alone else (BEFORE, AFTER)
    shown = {number for line in lines.values() for number in range(line - before, line + after + 1)}
    texts = _texts(path, shown)
    return {
        ref: "\n".join(
            _marked(number, texts[number], here=number == line, alone=alone)
            for number in range(line - before, line + after + 1)
            if number in texts
        )
        for ref, line in lines.items()
        if line in texts
    }


def _texts(path: Path, numbers: set[int]) -> dict[int, str]:
    texts: dict[int, str] = {}
    last, size = max(numbers), 0
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                size += len(line)
                if number > last or size > FILE_BYTES_MAX:
                    break
                if number in numbers:
                    texts[number] = line[: 4 * LINE_LENGTH_MAX].decode("utf-8", "replace").rstrip("\r\n")
    except OSError:
        return {}  # a file that is gone; the reference itself still says where it was
    return texts


def _marked(number: int, text: str, *, here: bool, alone: bool) -> str:
    cut = text if len(text) <= LINE_LENGTH_MAX else text[: LINE_LENGTH_MAX - 1] + "…"
    return cut if alone else f"{'>' if here else ' '} {number:>4}  {cut}"


def kept_files(run_dir: Path) -> dict[str, str]:
    """The texts that were kept when a wait ran out, by their names in the run directory; each from its beginning."""
    texts: dict[str, str] = {}
    for path in sorted((run_dir / KEPT).glob("*.txt"), key=_by_process):
        try:
            with path.open("rb") as stream:
                texts[f"{KEPT}/{path.name}"] = stream.read(KEPT_BYTES_MAX).decode("utf-8", "replace")
        except OSError:
            continue  # what cannot be read any more is not shown; the history still names it
    return texts


def _by_process(path: Path) -> tuple[bool, int, str, str, int]:
    """All of one process together, ranks in their order before all others; of each its stacks first."""
    what, _, rest = path.stem.partition("-")
    who, _, pid = rest.rpartition("-")
    order = _KINDS.index(what) if what in _KINDS else len(_KINDS)
    return not who.isdecimal(), int(who) if who.isdecimal() else 0, who, pid, order
