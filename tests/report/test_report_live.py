"""Claims about live progress."""

from __future__ import annotations

import io

from report_builders import event, failed, plan, verdict

from chaos.model.plan import JobPlan
from chaos.report.live import RANKS_SHOWN, LiveView


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    encoding = "utf-8"

    def isatty(self):
        return True


class Clock:
    """Nanoseconds that move when told to."""

    def __init__(self):
        self.now_ns = 0

    def __call__(self):
        return self.now_ns


class Flushes(io.StringIO):
    """Counts how much was written when last flushed."""

    flushed = 0

    def flush(self):
        self.flushed = self.tell()


def drive(stream, *, quiet=False, events=(), verdicts=None, the_plan=None, monkeypatch=None):
    clock = Clock()
    with LiveView(stream, quiet=quiet, now_ns=clock, width=80) as view:
        for k, ended in enumerate(verdicts or [verdict()], start=1):
            view.run_began(the_plan or plan(), k, len(verdicts or [1]), "reports/kill-worker/1")
            for each in events:
                clock.now_ns = each.t_ns
                view.event(each)
                view.tick()
            view.run_ended(ended)
    return stream.getvalue()


def story():
    before = [event("step_done", 1.0, rank, step=46, loss="0x1p+1", life=f"{rank}a", group="g") for rank in (0, 1)]
    after = [event("step_done", 4.5, rank, step=40, loss="0x1p+1", life=f"{rank}b", group="h") for rank in (0, 1)]
    return [
        event("steady_state_met", 0.9, step=10, step_time_s=0.02),
        *before,
        event("fault_armed", 1.5, fault="kill"),
        event("fault_fired", 2.0, 1, fault="kill", step=47, phase="backward"),
        event("fault_confirmed", 2.1, fault="kill"),
        event("worker_failed", 2.3),
        *after,
    ]


def test_a_pipe_gets_one_plain_line_per_change():
    assert drive(io.StringIO(), events=story()).splitlines() == [
        "run 1 of 1: kill-worker, seed 7391, in reports/kill-worker/1",
        "    0.9 s  kill-worker: steady at step 10, 20.0 ms a step",
        "    2.0 s  kill-worker: fault kill fired: rank 1, step 47, phase backward",
        "    2.3 s  kill-worker: detected after 0.30 s: the launcher saw a worker fail",
        "    4.5 s  kill-worker: all ranks step again 2.50 s after the fault",
        "passed  kill-worker  recovered by in_job: detected in 0.21 s, recovered in 2.61 s  (4.5 s)",
    ]


def test_quiet_on_a_terminal_is_as_plain_as_a_pipe(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    assert drive(Terminal(), quiet=True, events=story()) == drive(io.StringIO(), events=story())


def test_every_line_is_flushed_at_once():
    stream = Flushes()
    drive(stream, events=story())
    assert stream.flushed == len(stream.getvalue())


def test_a_terminal_shows_ranks_faults_and_the_running_clock(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    text = drive(Terminal(), events=story()[:-2])
    for part in (
        "run 1 of 1",
        "46/120",
        "2.0000",
        "fault kill: process.kill on rank 1, step 47, backward",
        "of 8 s allowed",
    ):
        assert part in text


def test_each_run_leaves_its_line_on_the_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    text = drive(Terminal(), verdicts=[verdict(), failed()])
    assert "recovered by in_job" in text and "at most 2.00 s" in text


def test_many_ranks_do_not_fill_the_window_and_the_hit_one_is_shown(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    big = plan(job=JobPlan(run="trainer", ranks_per_node=64))
    steps = [event("step_done", 1.0, rank, step=5, life=f"{rank}", group="g") for rank in range(64)]
    text = drive(Terminal(), events=steps, the_plan=big)
    assert f"{64 - RANKS_SHOWN} more ranks" in text


def test_a_stream_that_went_away_does_not_end_the_run():
    stream = io.StringIO()
    with LiveView(stream) as view:
        stream.close()
        view.run_began(plan(), 1, 1, "reports/x")
        view.event(event("steady_state_met", 1.0))
        view.run_ended(verdict())


def test_escape_sequences_in_names_do_not_reach_the_stream():
    text = drive(
        io.StringIO(),
        events=[event("stop_requested", 1.0, reason="\x1b[2Jgone")],
        verdicts=[failed(scenario="s\x1b[2J")],
        the_plan=plan(scenario="p\x1b[2J"),
    )
    assert "\x1b" not in text
    assert "stopping: \\x1b[2Jgone" in text


def test_events_outside_a_run_are_ignored():
    stream = io.StringIO()
    with LiveView(stream) as view:
        view.event(event("steady_state_met", 1.0))
        view.tick()
    assert stream.getvalue() == ""
