"""A log line's own time stamp, as seconds of the wall clock. Knows nothing of clocks that run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

MILLISECOND_NS = 1_000_000
ZONE_STEP_S = 900  # every zone on earth lies whole quarters of an hour from UTC

ISO = r"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)[,.](\d{3,6})"
_ISO = re.compile(ISO)
_TORCH = re.compile(r"(\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{6})")


@dataclass(frozen=True, slots=True)
class Stamp:
    """A day and a time, cut to `cut_ns`. Torch leaves the year out, and all but a few leave the zone out."""

    when: datetime
    cut_ns: int
    has_year: bool = True
    is_utc: bool = False

    def wall_s(self, near_s: float) -> float:
        """Seconds since 1970. Of the times that it can mean (year, end of summer time) the one nearest to `near_s`."""
        if self.is_utc:
            return self.when.replace(tzinfo=UTC).timestamp()
        return min(self._meanings(near_s), key=lambda wall_s: abs(wall_s - near_s), default=near_s)

    def wall_s_beside(self, utc_s: float) -> float:
        """The same when the zone is not ours: the zone is the one that brings it next to a time known in UTC."""
        here_s = self.when.replace(tzinfo=UTC).timestamp()
        return here_s - round((here_s - utc_s) / ZONE_STEP_S) * ZONE_STEP_S

    def _meanings(self, near_s: float) -> list[float]:
        year = datetime.fromtimestamp(near_s).year
        whens = [self.when]
        if not self.has_year:
            whens = [when for when in (_in_year(self.when, each) for each in (year - 1, year, year + 1)) if when]
        return [when.replace(fold=fold).timestamp() for when in whens for fold in (0, 1)]


def iso(text: str, *, is_utc: bool = False) -> Stamp | None:
    """`2026-12-01 12:18:09,896`, with three digits or six; None when it is no day of any calendar."""
    if (found := _ISO.fullmatch(text)) is None:
        return None
    *parts, fraction = found.groups()
    when = _moment([int(part) for part in parts], int(fraction.ljust(6, "0")))
    return None if when is None else Stamp(when, 10 ** (9 - len(fraction)), is_utc=is_utc)


def torch(text: str) -> Stamp | None:
    """`1201 12:19:07.425000`: month and day, no year. The last three digits are always noughts: cut to milliseconds."""
    if (found := _TORCH.fullmatch(text)) is None:
        return None
    *parts, fraction = map(int, found.groups())
    when = _moment([2000, *parts], fraction)  # a leap year: 29 February is a day
    return None if when is None else Stamp(when, MILLISECOND_NS, has_year=False)


def _moment(parts: list[int], microsecond: int) -> datetime | None:
    year, month, day, hour, minute, second = parts
    try:
        when = datetime(year, month, day, hour, minute, second, microsecond)
    except ValueError:
        return None
    # What a zone adds or takes must not leave the calendar.
    return when if timedelta(days=3) < when - datetime.min and when < datetime.max - timedelta(days=3) else None


def _in_year(when: datetime, year: int) -> datetime | None:
    try:
        return when.replace(year=year)
    except ValueError:
        return None  # 29 February
