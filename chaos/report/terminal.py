"""The final table of `run`, for people: a row per run, below it what was not passed and how to repeat it, a summary.

Plain text when piped or when the stream has no colours; says everything in words, colour only repeats it.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from chaos.errors import CannotWrite
from chaos.model.verdict import Verdict
from chaos.report import words
from chaos.report.clean import one_line, visible

STYLE = {"passed": "green", "failed": "bold red", "unknown": "yellow", "not_run": "cyan", "known": "magenta"}
PIPED_WIDTH = 100  # nobody's window is known then
INDENT = (0, 0, 0, 2)
WIDE = 110  # from here on the deciding check has a column of its own


def print_final(verdicts: Sequence[Verdict], stream: TextIO | None = None) -> None:
    """Writes the table to the stream (standard output). Raises CannotWrite when that fails."""
    stream = stream if stream is not None else sys.stdout
    colour = is_terminal(stream) and "NO_COLOR" not in os.environ
    try:
        width = os.get_terminal_size(stream.fileno()).columns if is_terminal(stream) else PIPED_WIDTH
    except (OSError, ValueError):
        width = PIPED_WIDTH
    say(stream, final_text(verdicts, width=width or PIPED_WIDTH, colour=colour))


def final_text(verdicts: Sequence[Verdict], *, width: int = PIPED_WIDTH, colour: bool = False) -> str:
    """The table, the list of what was not passed, and the summary as one text."""
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
        highlight=False,
        emoji=False,
        markup=False,
    )
    if verdicts:
        console.print(_table(verdicts, width))
        console.print()
    not_passed = [verdict for verdict in verdicts if verdict.outcome != "passed"]
    known = [verdict for verdict in not_passed if words.is_known_failure(verdict)]
    for verdict in not_passed:
        if not words.is_known_failure(verdict):
            _print_reason(console, verdict)
    if known:
        console.print(Text("Known failures, counted apart:", style="bold"))
    for verdict in known:
        _print_reason(console, verdict)
    console.print(Text(words.summary_line(verdicts), style="bold"))
    assert isinstance(console.file, io.StringIO)
    # padding at the ends of lines is noise to whoever copies or compares
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"


def outcome_text(verdict: Verdict) -> Text:
    """The outcome in colour *and* word."""
    return Text(words.outcome_words(verdict), style=STYLE.get(words.shown_as(verdict), "yellow"))


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at this stream; a closed one is none."""
    try:
        return stream.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:
        return False


def say(stream: TextIO, text: str) -> None:
    """Writes and flushes. What the stream's encoding lacks becomes `?` instead of an exception."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(text.encode(encoding, "replace").decode(encoding))
        stream.flush()
    except (OSError, ValueError) as error:
        raise CannotWrite(f"the result could not be printed: {error}", remedy="look into verdict.json") from error


def _table(verdicts: Sequence[Verdict], width: int) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False, header_style="bold")
    table.add_column("scenario", overflow="fold", ratio=None, min_width=12)
    table.add_column("outcome", overflow="fold", min_width=9)
    table.add_column("recovered by", overflow="fold")
    for name in ("detection", "recovery", "lost steps"):
        table.add_column(name, justify="right", no_wrap=True)
    if width >= WIDE:
        table.add_column("decided by", overflow="fold")
    for verdict in verdicts:
        table.add_row(*_row(verdict)[: len(table.columns)])
    return table


def _row(verdict: Verdict) -> list[Text]:
    incident = words.worst_incident(verdict)
    cells = [Text(one_line(verdict.scenario, 120)), outcome_text(verdict), Text(one_line(words.recovered_by(verdict)))]
    if incident is None:
        cells += [Text(words.NOTHING)] * 3
    else:
        lost = words.NOTHING if incident.lost_steps is None else str(incident.lost_steps)
        cells += [Text(words.detection(incident)), Text(words.seconds(incident.recovery_time_s)), Text(lost)]
    check = words.deciding_check(verdict)
    return [*cells, Text(one_line(words.spaced(check.name)) if check else "")]


def _print_reason(console: Console, verdict: Verdict) -> None:
    console.print(Text.assemble(outcome_text(verdict), "  ", one_line(verdict.scenario, 120)))
    console.print(Padding(Text(words.decided_by(verdict)), INDENT))
    if verdict.remedy:
        console.print(Padding(Text(f"next: {one_line(verdict.remedy, 500)}"), INDENT))
    if verdict.repeat:  # soft_wrap: a command must be copied as one line, whatever the window's width
        console.print(Text(f"  repeat: {visible(verdict.repeat)}"), soft_wrap=True)
    console.print()
