"""Markdown tables, and the check that words written by hand cover exactly what the code has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """One table; bars inside cells are escaped."""
    lines = [_row(head), "|" + " --- |" * len(head)]
    lines += [_row([_cell(cell) for cell in row]) for row in rows]
    return "\n".join(lines)


def code(text: object) -> str:
    return f"`{text}`"


def listed(words: Iterable[object]) -> str:
    """Each as code, with commas."""
    return ", ".join(code(word) for word in words)


def same_names(what: str, written: Iterable[str], in_code: Iterable[str]) -> None:
    """Ends the program where the hand-written words and the code do not name the same things."""
    here, there = set(written), set(in_code)
    if here != there:
        lacking, surplus = sorted(there - here), sorted(here - there)
        raise SystemExit(f"{what}: no words for {lacking or 'none'}; words for unknown {surplus or 'none'}")


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
