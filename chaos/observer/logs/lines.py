"""The forms in which the words of NVRx reach the job's log; recognised line by line, since one log mixes them.

- 0.4.1, launcher and rank monitors: `[STAMP] [LEVEL] [ft_launcher<pid>@host] words`
- 0.6 and 0.7: `STAMP [LEVEL] [host] [workload:R(L) infra:?(?)] file.py:NN words`; some words hold a UTC stamp
- torch's elastic agent under 0.6 and 0.7: `E1201 12:19:07.425000 pid torch/file.py:NN] words`: no year, no zone
- the in-process wrapper of 0.4.1 uses the program's own handlers: any stamp, level or logger, then its words
- its monitor process, where it has a log: `STAMP | LEVEL | logger | words`

Whose words they are is decided here, what they mean in `model.nvrx_messages`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from chaos.observer.logs import stamps
from chaos.observer.logs.stamps import ISO, Stamp

LINE_MAX = 8000  # characters; NVRx's longest words are a tenth of this


@dataclass(frozen=True, slots=True)
class Line:
    """One line in a form of NVRx's. `utc`: a second stamp in UTC, which tells the zone of the first."""

    message: str
    stamp: Stamp | None
    utc: Stamp | None = None
    logger: str = ""
    rank: int | None = None
    local_rank: int | None = None  # of 0.6 and 0.7's rank monitors all that is known


_LEVEL = r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)"
_WORDS = r"(?P<message>.*)"
_STAMP = "(?P<stamp>" + re.sub(r"\((?!\?)", "(?:", ISO) + ")"
_SPEAKER = (
    r"(?:ft_launcher\d+@[^\]]*|RankMonServer\d*@[^\]:]*:(?P<rank>\d{1,9})|(?:RankMonServer|InprocessRestarter)[^\]]*)"
)
_LAUNCHER = rf"\[{_STAMP}\] \[\w+\] \[{_SPEAKER}\] "
_COMMON = _STAMP + (
    r" \[\w+\] \[[^\]]*\] \[workload:(?P<rank>\d{1,9}|\?)\((?P<local_rank>\d{1,9}|\?)\) infra:[^\]]*\] "
    r"(?P<logger>\w+)\.py:\d+ "
)
_ELASTIC = (
    r"[DIWEC](?P<stamp>\d{4} \d\d:\d\d:\d\d\.\d{6}) \d+ "
    r"(?P<logger>(?:\S*/)?(?:torch|nvidia_resiliency_ext)/\S+)\.py:\d+\] "
)
_MONITOR_LOG = rf"{_STAMP} \| {_LEVEL} *\| (?P<logger>nvidia_resiliency_ext\.[\w.]+) \| "
# Nobody knows how the program writes its own log: after the level or the logger's name the words begin.
_WRAPPER_WORDS = r"(?P<message>rank=(?:\d+|None) \w+_ex: .*)"
_PROGRAM = (
    rf"\[?{_STAMP}\]?(?=\W).{{0,200}}?(?:\b{_LEVEL}|nvidia_resiliency_ext\.inprocess\.wrap)[\s\]|:>-]*" + _WRAPPER_WORDS
)
_NO_STAMP = rf"(?:{_LEVEL}:nvidia_resiliency_ext\.inprocess\.wrap:)?" + _WRAPPER_WORDS

_UTC_FIRST = re.compile(rf"\[({ISO})\] ")
_UTC_LAST = re.compile(rf" Time: ({ISO}) UTC$")
_TEE = re.compile(r"\[[A-Za-z_]+\d+\]: ?")  # how torch marks whose output it passes on

# What a program of another's puts before them on the same line does not hide the first three.
_FORMS: tuple[tuple[Callable[[str], re.Match[str] | None], Callable[[str], Stamp | None]], ...] = (
    (re.compile(_LAUNCHER + _WORDS).search, stamps.iso),
    (re.compile(_COMMON + _WORDS).search, stamps.iso),
    (re.compile(_ELASTIC + _WORDS).search, stamps.torch),
    (re.compile(_MONITOR_LOG + _WORDS).match, stamps.iso),
    (re.compile(_PROGRAM).match, stamps.iso),
    (re.compile(_NO_STAMP).match, lambda _: None),
)

# One of these is in every form: the lines of a job are many, and few are NVRx's.
_HINTS = (
    "ft_launcher",
    "RankMonServer",
    "InprocessRestarter",
    "[workload:",
    "torch/",
    "nvidia_resiliency_ext",
    "_ex: ",
)


def read_line(text: str) -> Line | None:
    """The line in its form, or None when it is in none of NVRx's: another program's."""
    if not any(hint in text for hint in _HINTS):
        return None
    text = text.rstrip("\r").rpartition("\r")[2][:LINE_MAX]  # a progress bar writes over its own line
    if (tee := _TEE.match(text)) is not None:
        text = text[tee.end() :]
    for recognise, read_stamp in _FORMS:
        if (found := recognise(text)) is not None:
            return _line(found.groupdict(), read_stamp)
    return None


def _line(parts: dict[str, str | None], read_stamp: Callable[[str], Stamp | None]) -> Line | None:
    message, text = parts["message"] or "", parts.get("stamp")
    stamp = None if text is None else read_stamp(text)
    if text is not None and stamp is None:
        return None  # no day of any calendar: a line that only looks like one of NVRx's
    utc = _UTC_FIRST.match(message) or _UTC_LAST.search(message)
    return Line(
        message=message,
        stamp=stamp,
        utc=stamps.iso(utc[1], is_utc=True) if utc else None,
        logger=parts.get("logger") or "",
        rank=_number(parts.get("rank")),
        local_rank=_number(parts.get("local_rank")),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
