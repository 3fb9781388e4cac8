"""Where the main thread stood, found in a dump of stacks by faulthandler or py-spy. Reads text only."""

from __future__ import annotations

import re
from typing import NamedTuple

# torch's code, the standard library's, what the interpreter carries in itself, our hooks: not the job's own.
_LIBRARY = re.compile(r"/(site|dist)-packages/|/lib/python\d|/chaos/agent/|^<")
_FAULTHANDLER = re.compile(r'  File "(?P<file>.*)", line (?P<at>\d+|\?+) in (?P<function>.*)')
_PY_SPY = re.compile(r"    (?P<function>\S.*) \((?P<file>[^()]*):(?P<at>\d+)\)")
_THREAD = re.compile(r"(Current thread|Thread) (0x[0-9a-fA-F]+|\d+)")


class Frame(NamedTuple):
    """One call. `line` is where it stands in the dump, `at` the line of the code."""

    line: int
    function: str
    file: str
    at: str

    @property
    def words(self) -> str:
        return f"{self.function} ({self.file.rpartition('/')[2]}:{self.at})"


class Stand(NamedTuple):
    """Where a main thread stood: the line of the dump with its innermost frame, and that in words."""

    line: int
    words: str


def stand_in(dump: str) -> Stand | None:
    """None where the dump has no frame of a main thread."""
    frames = _main_thread(dump)
    if not frames:
        return None
    inner = frames[0]
    own = next((frame for frame in frames if not _LIBRARY.search(frame.file)), inner)
    words = own.words if own is inner else f"{inner.words}, called from {own.words}"
    return Stand(line=inner.line, words=words)


def _main_thread(dump: str) -> list[Frame]:
    """The innermost first. The kernel hands a signal to the main thread, so it is the current one in faulthandler's
    dump; where it could not take it, it is the last of them, as the oldest. py-spy names it."""
    current: list[Frame] = []
    last: list[Frame] = []
    named: list[Frame] = []
    block: list[Frame] = []
    for number, line in enumerate(dump.splitlines(), 1):
        if _THREAD.match(line):
            block = []
            if line.startswith("Current thread"):
                current = block
            elif '"MainThread"' in line:
                named = block
            elif "most recent call first" in line:
                last = block
        elif found := _FAULTHANDLER.fullmatch(line) or _PY_SPY.fullmatch(line):
            block.append(Frame(line=number, function=found["function"], file=found["file"], at=found["at"]))
    return current or last or named
