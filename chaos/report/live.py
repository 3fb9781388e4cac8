"""Live progress of `run`: a small table on a terminal, else a plain line per change. The caller drives it.

It shows what events say and decides nothing. It never ends a run: a stream that cannot be written goes unused.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from chaos.errors import CannotWrite
from chaos.model.events import Event
from chaos.model.plan import Plan
from chaos.model.verdict import Verdict
from chaos.report import words
from chaos.report.clean import one_line
from chaos.report.progress import FaultProgress, RankProgress, RunProgress
from chaos.report.terminal import STYLE, is_terminal, say

REFRESH_S = 0.1  # faster than eyes, slow enough to cost nothing
RANKS_SHOWN = 16
SILENT_AFTER_S = 1.0  # from here on a training rank's last step is told with its age
RANK_STYLE = {"training": "green", "stopped": "bold red", "restarting": "yellow", "starting": "yellow"}
FAULT_STYLE = {"fired": "bold red", "confirmed": "bold red", "not fired": "yellow", "not confirmed": "yellow"}


class LiveView:
    """`with LiveView() as view:` then `run_began`, `event`, `tick`, `run_ended`, again for each run."""

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        quiet: bool = False,
        now_ns: Callable[[], int] = time.monotonic_ns,
        width: int | None = None,
    ) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._now_ns = now_ns
        self._live = None if quiet or not _can_draw(self._stream) else _live(self._stream, width)
        self._dead = False
        self._run: RunProgress | None = None
        self._title = ""
        self._position = ""
        self._began_ns = 0
        self._drawn_ns = 0

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._guarded(self._live.stop)

    @property
    def is_live(self) -> bool:
        """Whether a picture is drawn anew, on a terminal."""
        return self._live is not None

    def run_began(self, plan: Plan, k: int, n: int, run_dir: Path | str) -> None:
        """Run `k` of `n` (from 1) begins; events from now on belong to it."""
        self._run = RunProgress(plan)
        self._began_ns = self._now_ns()
        self._position = f"run {k} of {n}"
        self._title = one_line(plan.scenario, 80)
        if self._live is None:
            self._line(f"{self._position}: {self._title}, seed {plan.seed}, in {one_line(str(run_dir), 300)}")
        self.tick(force=True)

    def event(self, event: Event) -> None:
        """One event of the run, in whatever order they arrive."""
        if self._run is None:
            return
        for line in self._run.see(event):
            if self._live is None:
                self._line(f"{self._elapsed_s():7.1f} s  {self._title}: {line}")

    def tick(self, *, force: bool = False) -> None:
        """Redraws when it is time to; call it as often as you like."""
        if self._live is None or self._run is None:
            return
        now_ns = self._now_ns()
        if force or now_ns - self._drawn_ns >= REFRESH_S * 1e9:
            self._drawn_ns = now_ns
            self._guarded(partial(self._live.update, self._picture(), refresh=True))

    def run_ended(self, verdict: Verdict) -> None:
        """The run is over; its line stays."""
        text = Text.assemble(
            (words.outcome_words(verdict), STYLE.get(words.shown_as(verdict), "yellow")),
            f"  {one_line(verdict.scenario, 80)}  {_ending(verdict)}",
            f"  ({self._elapsed_s():.1f} s)",
        )
        live, self._run = self._live, None
        if live is None:
            self._line(text.plain)
        else:
            self._guarded(partial(live.update, Text(""), refresh=True))
            self._guarded(partial(live.console.print, text))

    def _elapsed_s(self) -> float:
        return (self._now_ns() - self._began_ns) / 1e9

    def _line(self, text: str) -> None:
        self._guarded(partial(say, self._stream, text + "\n"))

    def _guarded(self, write: Callable[[], object]) -> None:
        """A terminal that went away must not end a run that holds faults."""
        if self._dead:
            return
        try:
            write()
        except (OSError, ValueError, CannotWrite):
            self._dead = True

    def _picture(self) -> Group:
        assert self._run is not None
        run = self._run
        head = Text.assemble(
            (f"{self._position}  ", "dim"), (self._title, "bold"), (f"  {self._elapsed_s():.1f} s", "dim")
        )
        parts: list[Text | Table] = [head]
        if run.plan.title:
            parts.append(Text(one_line(run.plan.title, 160), style="dim", no_wrap=True, overflow="ellipsis"))
        parts += [_ranks_table(run, self._now_ns()), *(_fault_line(fault) for fault in run.faults.values())]
        parts.append(_clock_line(run, self._now_ns()))
        return Group(*parts)


def _can_draw(stream: TextIO) -> bool:
    encoding = (getattr(stream, "encoding", None) or "").lower()
    return is_terminal(stream) and encoding.startswith("utf")


def _live(stream: TextIO, width: int | None) -> Live:
    console = Console(file=stream, width=width, highlight=False, emoji=False, markup=False)
    # redirects off: standard output may carry a JSON document, which is not ours to reroute
    return Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False)


def _ending(verdict: Verdict) -> str:
    if verdict.outcome != "passed":
        return words.decided_by(verdict)
    incident = words.worst_incident(verdict)
    if incident is None:
        return "no incident"
    times = f"detected in {words.detection(incident)}, recovered in {words.seconds(incident.recovery_time_s)}"
    return f"recovered by {words.recovered_by(verdict)}: {times}"


def _ranks_table(run: RunProgress, now_ns: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("rank", justify="right")
    for name in ("step", "loss", "step time"):
        table.add_column(name, justify="right", no_wrap=True, min_width=9)
    table.add_column("state")
    ranks = sorted(run.ranks.values(), key=lambda rank: (not _is_hit(run, rank), rank.rank))
    shown = sorted(ranks[:RANKS_SHOWN], key=lambda rank: rank.rank)
    for rank in shown:
        loss = words.NOTHING if rank.loss is None else f"{rank.loss:.4f}"
        step = f"{words.NOTHING if rank.step is None else rank.step}/{run.plan.job.steps}"
        state = Text(_state(rank, now_ns), style=RANK_STYLE.get(rank.state, ""))
        table.add_row(str(rank.rank), step, loss, words.milliseconds(rank.step_time_s), state)
    if len(ranks) > len(shown):
        table.add_row("…", "", "", "", Text(f"{len(ranks) - len(shown)} more ranks", style="dim"))
    return table


def _is_hit(run: RunProgress, rank: RankProgress) -> bool:
    """Whether a fault is aimed at it, or it is not simply training: what one wants to see of many ranks."""
    return rank.state != "training" or any(rank.rank in fault.plan.ranks for fault in run.faults.values())


def _state(rank: RankProgress, now_ns: int) -> str:
    age_s = (now_ns - rank.last_step_ns) / 1e9
    if rank.state == "training" and age_s > SILENT_AFTER_S:
        return f"training, last step {age_s:.1f} s ago"
    return rank.state


def _fault_line(fault: FaultProgress) -> Text:
    plan = fault.plan
    ranks = f"rank {', '.join(map(str, plan.ranks[:8]))}" if plan.ranks else "job"
    when = [f"step {plan.at.step}"] if plan.at.step is not None else []
    when += [plan.at.phase] if plan.at.phase else []
    when += [f"{plan.at.after_s:g} s after steady"] if plan.at.after_s is not None else []
    when += [f"at {plan.at.event}"] if plan.at.event else []
    described = one_line(f"fault {plan.name}: {plan.fault} on {ranks}, {', '.join(when)}", 160)
    return Text.assemble(f"{described}  ", (fault.state, FAULT_STYLE.get(fault.state, "")))


def _clock_line(run: RunProgress, now_ns: int) -> Text:
    clock = run.clock
    if clock is None:
        return Text("steady" if run.steady else "waiting for steady state", style="dim")
    detection_s, recovery_s = clock.detection_s, clock.recovery_s(now_ns)
    noticed = "not detected yet" if detection_s is None else f"detected after {words.seconds(detection_s)}"
    if recovery_s is None:
        return Text(f"recovery: clock starts at the undo; {noticed}", style="yellow")
    if clock.recovered_ns is None:
        limit_s = run.plan.objective.recovery_time_s
        bound = "" if limit_s is None else f" of {limit_s:g} s allowed"
        return Text(f"recovery: {recovery_s:.1f} s{bound}; {noticed}", style="yellow")
    return Text(f"all ranks step again after {recovery_s:.2f} s; {noticed}", style="green")
