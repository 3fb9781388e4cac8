"""What a page shows of the lines that checks cite, and of what was kept when a wait ran out. Bounded in size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chaos.model.verdict import Check
from chaos.report import words
from chaos.report.clean import one_line

CITED_MAX = 8
SHEETS_MAX = 60
SHEET_CHARACTERS_MAX = 20_000
CHARACTERS_MAX = 400_000  # over all sheets: the page stays one that opens at once


@dataclass(frozen=True, slots=True)
class Sheet:
    """One text that is shown folded. `note` says what was left out of it."""

    name: str
    text: str
    note: str


def cited(check: Check) -> str:
    """The references of a check on one line."""
    shown = ", ".join(one_line(ref, 200) for ref in check.evidence[:CITED_MAX])
    more = len(check.evidence) - CITED_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def worth_quoting(check: Check) -> list[str]:
    """The references whose lines are shown. Of a check that passed only those that people can read: no events."""
    undecided = check.outcome in ("fail", "unknown")
    return [ref for ref in check.evidence[:CITED_MAX] if undecided or "/" in ref]


def lines_cited(check: Check, quotes: Mapping[str, str]) -> list[tuple[str, str]]:
    """(reference, what stands there), for those that could be looked up."""
    return [(one_line(ref, 200), quotes[ref]) for ref in worth_quoting(check) if quotes.get(ref)]


def sheets(kept: Mapping[str, str]) -> tuple[list[Sheet], str]:
    """The texts in their order, each from its beginning, and words on those that are not shown."""
    shown: list[Sheet] = []
    room = CHARACTERS_MAX
    for name, text in list(kept.items())[:SHEETS_MAX]:
        part = text[: min(SHEET_CHARACTERS_MAX, room)]
        room -= len(part)
        if not part:
            break
        shown.append(Sheet(one_line(name), part, "" if len(part) == len(text) else "its beginning"))
    more = len(kept) - len(shown)
    return shown, f"{words.count(more, 'more file')} in the run's folder" if more else ""
