"""Does the entry of a known defect hold for this run: its versions, and its last day.

From what the run recorded, never from today: the same history gives the same answer, always. What the answer means
for the verdict is decided in `foreseen.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import Enum

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from chaos.judge.record import Record
from chaos.model.events import KINDS
from chaos.model.plan import KnownPlan

# A rank's wall clock may be shifted by a fault; the controller's never is.
_CONTROLLERS = tuple(kind for kind, (writer, _) in KINDS.items() if writer == "controller")


class Hold(Enum):
    """Whether an entry speaks of this run."""

    IN_FORCE = "in force"
    LAPSED = "past its last day: its failures are counted again"
    OTHER_VERSION = "of other versions: it says nothing about this run"
    UNCLEAR = "version or day was not seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A `known` of the scenario, held against one run. `why`: what keeps it from being in force, in words."""

    known: KnownPlan
    hold: Hold
    why: str = ""


def read(known: KnownPlan, record: Record) -> Entry:
    """Versions first: of a run with other versions an entry says nothing, whatever the day."""
    versions = versions_seen(record)
    for package, conditions in known.since.items():
        for version in versions.get(package, ()):
            if _covers(conditions, version) is False:
                words = f"it is known for {package} {conditions}, and this run had {version}"
                return Entry(known=known, hold=Hold.OTHER_VERSION, why=words)
    unread = [package for package, conditions in known.since.items() if not _all_read(conditions, versions, package)]
    if unread:
        return Entry(known=known, hold=Hold.UNCLEAR, why=f"the version of {unread[0]} was not seen")
    day = day_of(record)
    if day is None:
        return Entry(known=known, hold=Hold.UNCLEAR, why="the day of the run was not seen")
    if day > known.until:
        return Entry(known=known, hold=Hold.LAPSED, why=f"it counted until {known.until}, and the run is of {day}")
    return Entry(known=known, hold=Hold.IN_FORCE)


def versions_seen(record: Record) -> dict[str, tuple[str, ...]]:
    """Package → its versions, as the ranks told them; more than one where they disagree."""
    found: dict[str, dict[str, None]] = {}
    for event in record.of("rank_started"):
        versions = event.data.get("versions")
        for name, version in versions.items() if isinstance(versions, dict) else ():
            found.setdefault(str(name), {}).setdefault(str(version))
    return {name: tuple(told) for name, told in sorted(found.items())}


def day_of(record: Record) -> date | None:
    """The day on which the run ended (UTC), by the controller's clock; None where it was not seen."""
    walls = [event.wall_s for kind in _CONTROLLERS for event in record.of(kind)]
    try:
        return datetime.fromtimestamp(max(walls), UTC).date()
    except (ValueError, OverflowError, OSError):
        return None


def _all_read(conditions: str, versions: Mapping[str, Sequence[str]], package: str) -> bool:
    told = versions.get(package, ())
    return bool(told) and all(_covers(conditions, version) is not None for version in told)


def _covers(conditions: str, version: str) -> bool | None:
    """Whether the conditions hold for that version; None where one of both cannot be read."""
    try:
        # A pre-release of a version that has the defect has it, too.
        return SpecifierSet(conditions).contains(Version(version), prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return None
