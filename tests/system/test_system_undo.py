from __future__ import annotations

import os
import signal

import pytest
from system_jobs import (
    TABLE,
    FakeTable,
    Job,
    fake_life,
    life_of,
    life_record,
    marked,
    row,
    sleeper,
    wait_until,
)

from chaos.clock import FakeClock
from chaos.errors import Refused, TargetGone
from chaos.model.undo import UNDO_VERBS, Undo, Undone
from chaos.system.proc import boot_ticks_now
from chaos.system.undo import Undoer


class FakeKiller:
    """Signals act on the fake table; `deaf` pids ignore them all, `refused` ones may not be signalled."""

    def __init__(self, table: FakeTable, *, deaf=(), refused=()) -> None:
        self.table, self.deaf, self.refused, self.sent = table, set(deaf), set(refused), []

    def send(self, life, signal_number, *, mark, family=()):
        self.sent.append((life.pid, signal_number))
        if life.pid in self.refused:
            raise Refused(f"pid {life.pid} may not be signalled")
        if not self.table.is_alive(life):
            raise TargetGone("gone")
        if life.pid not in self.deaf and signal_number == signal.SIGKILL:
            del self.table.rows[life.pid]

    def resume(self, life):
        self.sent.append((life.pid, signal.SIGCONT))
        if not self.table.is_alive(life):
            raise TargetGone("gone")
        if life.pid not in self.deaf:
            self.table.rows[life.pid] = row(life.pid)


def undoer(table, clock=None, **killer) -> Undoer:
    return Undoer(table=table, killer=FakeKiller(table, **killer), clock=clock or FakeClock())


def resume(life) -> Undo:
    return Undo(verb="resume_process", args={"life": life_record(life)})


def stop(mark, keep=False) -> Undo:
    return Undo(verb="stop_job", args={"mark": mark, "keep": keep})


def disarm(life) -> Undo:
    return Undo(verb="disarm", args={"life": life_record(life), "lease_s": 3.0})


# --- resume_process


def test_a_stopped_process_is_resumed_and_seen_to_run(mark):
    with sleeper(mark) as process:
        life = life_of(process.pid)
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: TABLE.is_stopped(life), 2, "stopped")
        undone = Undoer().carry_out(resume(life))
        assert (undone.how, undone.measured) == ("done", True)
        assert TABLE.is_stopped(life) is False


def test_a_process_that_ended_meanwhile_is_gone_and_that_is_right():
    assert undoer(FakeTable()).carry_out(resume(fake_life(9))).how == "gone"
    reused = FakeTable(row(9, state="T", start_ticks=700))
    undone = undoer(reused).carry_out(resume(fake_life(9)))
    assert (undone.how, undone.measured, reused.rows[9].state) == ("gone", True, "T")


def test_a_process_that_stays_stopped_is_never_reported_as_resumed():
    clock = FakeClock()
    undone = undoer(FakeTable(row(9, state="T")), clock, deaf={9}).carry_out(resume(fake_life(9)))
    assert (undone.how, undone.measured) == ("failed", False)
    assert clock.monotonic_ns() - FakeClock().monotonic_ns() < 2e9


def test_resuming_also_takes_back_a_stop_that_is_still_on_its_way():
    table = FakeTable(row(9))
    killer = FakeKiller(table)
    Undoer(table=table, killer=killer, clock=FakeClock()).carry_out(resume(fake_life(9)))
    assert killer.sent == [(9, signal.SIGCONT)]


# --- stop_job


def test_a_whole_job_is_stopped_with_its_daemonised_monitor_and_a_stopped_rank(job, mark):
    os.kill(job.ranks[0], signal.SIGSTOP)
    with sleeper() as bystander:
        undone = Undoer().carry_out(stop(mark))
        assert (undone.how, undone.measured) == ("done", True)
        assert marked(mark) == []
        assert TABLE.is_alive(life_of(bystander.pid))


def test_a_launcher_that_ignores_the_polite_signal_is_killed(mark):
    job = Job(mark, "stubborn")
    try:
        assert Undoer().carry_out(stop(mark)).how == "done"
        assert marked(mark) == []
        assert job.process.wait(5) == -signal.SIGKILL
    finally:
        job.end()


def test_a_job_that_is_not_there_is_gone(mark):
    undone = Undoer().carry_out(stop(mark))
    assert (undone.how, undone.measured) == ("gone", True)


def test_a_job_to_be_kept_is_left_running(job, mark):
    assert Undoer().carry_out(stop(mark, keep=True)) == Undone(
        how="kept", measured=True, detail="the job was to be left running"
    )
    assert len(marked(mark)) == 4


def test_a_process_older_than_the_entry_is_never_stopped_and_never_called_gone(mark):
    with sleeper(mark) as process:
        life = life_of(process.pid)
        undone = Undoer().carry_out(stop(mark), opened_ticks=life.start_ticks + 1)
        assert (undone.how, undone.measured) == ("failed", False)
        assert f"pid {process.pid}" in undone.detail
        assert TABLE.is_alive(life)
        assert Undoer().carry_out(stop(mark), opened_ticks=life.start_ticks).how == "done"


def test_a_child_that_lost_its_mark_and_then_its_parent_is_still_found():
    """Seen once as a descendant, it stays the job's when it is an orphan."""
    table = FakeTable(row(10, mark="m", start_ticks=501), row(11, ppid=10, start_ticks=502))

    class OrphanMaker(FakeKiller):
        def send(self, life, signal_number, *, mark, family=()):
            super().send(life, signal_number, mark=mark, family=family)
            if life.pid == 10 and signal_number == signal.SIGKILL:
                self.table.rows[11] = row(11, ppid=1, start_ticks=502)
            elif life.pid == 11:
                self.deaf.discard(11)  # it outlives the round in which its parent ended, and no more

    killer = OrphanMaker(table, deaf={11})
    assert Undoer(table=table, killer=killer, clock=FakeClock()).carry_out(stop("m")).how == "done"
    assert table.rows == {}


def test_what_cannot_be_stopped_is_named_and_nothing_is_claimed():
    clock = FakeClock()
    table = FakeTable(row(10, mark="m"), row(11, mark="m", state="D"))
    undone = undoer(table, clock, refused={10}, deaf={11}).carry_out(stop("m"))
    assert (undone.how, undone.measured) == ("failed", False)
    assert "pid 10 may not be signalled" in undone.detail
    assert "pid 11" in undone.detail
    assert clock.monotonic_ns() - FakeClock().monotonic_ns() < 8e9


def test_we_and_our_ancestors_and_other_runs_are_spared_even_inside_the_job():
    table = FakeTable(
        row(10, mark="m"),
        row(os.getpid(), ppid=10, mark="m"),
        row(12, ppid=10, mark="other"),
        row(13, ppid=12),
    )
    killer = FakeKiller(table)
    Undoer(table=table, killer=killer, clock=FakeClock()).carry_out(stop("m"))
    assert {pid for pid, _ in killer.sent}.isdisjoint({10, os.getpid(), 12})


@pytest.mark.parametrize("mark", ["", None])
def test_a_record_without_a_mark_stops_nobody(mark):
    table = FakeTable(row(10), row(11, mark=""))
    killer = FakeKiller(table)
    undone = Undoer(table=table, killer=killer, clock=FakeClock()).carry_out(stop(mark))
    assert (undone.how, killer.sent) == ("failed", [])


# --- disarm, remove_path


def test_an_order_is_gone_when_its_lease_has_lapsed():
    clock = FakeClock()
    began_ns = clock.monotonic_ns()
    undone = undoer(FakeTable(row(9)), clock).carry_out(disarm(fake_life(9)))
    assert (undone.how, undone.measured) == ("done", True)
    assert 3.0 < (clock.monotonic_ns() - began_ns) / 1e9 < 3.5


def test_a_lease_counts_from_the_last_renewal():
    clock = FakeClock()
    silent_since = clock.monotonic_ns()
    clock.advance(5)
    now = clock.monotonic_ns()
    undoer(FakeTable(row(9)), clock).carry_out(disarm(fake_life(9)), silent_since_ns=silent_since)
    assert clock.monotonic_ns() == now


def test_an_order_goes_with_its_process():
    clock = FakeClock()
    now = clock.monotonic_ns()
    assert undoer(FakeTable(), clock).carry_out(disarm(fake_life(9))).how == "gone"
    assert clock.monotonic_ns() == now


def test_a_path_is_removed_and_a_folder_with_others_things_is_not(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "theirs").touch()
    undone = Undoer().carry_out(Undo(verb="remove_path", args={"path": str(tmp_path / "full")}))
    assert (undone.how, undone.measured) == ("failed", False)
    assert (tmp_path / "full" / "theirs").exists()


# --- all verbs


def cases(tmp_path, mark, life):
    (tmp_path / "made").touch()
    return {
        "resume_process": resume(life),
        "stop_job": stop(mark),
        "remove_path": Undo(verb="remove_path", args={"path": str(tmp_path / "made")}),
        "disarm": Undo(verb="disarm", args={"life": life_record(life), "lease_s": 0.0}),
    }


@pytest.mark.parametrize("verb", UNDO_VERBS)
def test_undoing_twice_leaves_the_system_as_undoing_once_does(verb, tmp_path, mark):
    with sleeper(mark) as process:
        life = life_of(process.pid)
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: TABLE.is_stopped(life), 2, "stopped")
        undo = cases(tmp_path, mark, life)[verb]

        def system():
            return TABLE.is_stopped(life), (tmp_path / "made").exists()

        before = system()
        assert Undoer().carry_out(undo, opened_ticks=0).measured
        once = system()
        assert Undoer().carry_out(undo, opened_ticks=0).measured
        assert system() == once
        assert once != before or verb == "disarm"


@pytest.mark.parametrize("verb", UNDO_VERBS)
def test_a_record_that_makes_no_sense_fails_without_a_traceback(verb):
    undone = Undoer().carry_out(Undo(verb=verb, args={"life": {"pid": "x"}}), opened_ticks=boot_ticks_now())
    assert (undone.how, undone.measured) == ("failed", False)
