"""Real controllers, watchdogs and small jobs; each test kills or stops some of them."""

from __future__ import annotations

import os
import signal
import time

import pytest
from guard_controllers import controller
from system_jobs import TABLE, ends_within, wait_until

from chaos.errors import HostDirty
from chaos.guard.dirty import check, run_states
from chaos.guard.heal import heal
from chaos.guard.ledger import read_ledger


def all_is_undone(subject, within_s: float = 10) -> None:
    wait_until(lambda: not subject.is_held(), 3, "the held rank is resumed")
    wait_until(subject.job_is_gone, within_s, "the job is gone, its daemonised monitor too")
    assert ends_within(subject.watchdog, 5), "a watchdog with a clean ledger ends"
    assert subject.ledger_is_clean()
    assert not (subject.home / "socket").exists()
    check(subject.home)


def test_a_controller_killed_while_a_rank_is_held_leaves_nothing(home, run_dir, mark):
    with controller(home, run_dir, mark) as subject:
        subject.kill()
        all_is_undone(subject)
        copied = read_ledger(run_dir / "ledger.jsonl")
        assert len(copied.entries) == 4
        assert not copied.open_entries


def test_the_whole_process_group_killed_leaves_nothing(home, run_dir, mark):
    with controller(home, run_dir, mark) as subject:
        os.killpg(subject.process.pid, signal.SIGKILL)
        subject.process.wait()
        all_is_undone(subject)


def test_no_polite_signal_keeps_the_watchdog_from_its_work(home, run_dir, mark):
    with controller(home, run_dir, mark) as subject:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            os.kill(subject.watchdog, number)
        subject.kill()
        all_is_undone(subject)


def test_a_controller_that_hangs_is_found_out_and_everything_is_undone(home, run_dir, mark):
    with controller(home, run_dir, mark, beat_s=0.2) as subject:
        began = time.monotonic()
        os.kill(subject.process.pid, signal.SIGSTOP)
        wait_until(subject.ledger_is_clean, 10, "every entry is closed")
        assert time.monotonic() - began < 10
        assert not subject.is_held()
        assert subject.job_is_gone()
        assert TABLE.is_alive(subject.watchdog_life)


def test_a_controller_that_hung_may_do_no_new_harm_when_it_goes_on(home, run_dir, mark):
    with controller(home, run_dir, mark, beat_s=0.2) as subject:
        os.kill(subject.process.pid, signal.SIGSTOP)
        wait_until(subject.ledger_is_clean, 10, "every entry is closed")
        os.kill(subject.process.pid, signal.SIGCONT)
        assert subject.ask("intend") == "Refused"


def test_harm_that_a_waking_controller_still_did_is_undone_again(home, run_dir, mark):
    """It had the answer "on disk" and stopped for us before it harmed; it harms as it wakes up."""
    with controller(home, run_dir, mark, keep="keep", beat_s=0.2) as subject:
        os.kill(subject.process.pid, signal.SIGSTOP)
        wait_until(subject.ledger_is_clean, 10, "every entry is closed")
        os.kill(subject.held.pid, signal.SIGSTOP)
        wait_until(subject.is_held, 2, "held again")
        os.kill(subject.process.pid, signal.SIGCONT)
        wait_until(lambda: not subject.is_held(), 3, "resumed again")


def test_a_held_rank_is_resumed_at_its_time_limit_though_the_controller_lives(home, run_dir, mark):
    with controller(home, run_dir, mark, limit_s=1) as subject:
        began = time.monotonic()
        wait_until(lambda: not subject.is_held(), 3, "resumed")
        assert time.monotonic() - began < 1 + 2
        assert subject.process.poll() is None
        assert TABLE.is_alive(subject.other)
        wait_until(lambda: len(read_ledger(subject.folder.ledger).open_entries) == 3, 2, "its entry is closed")


def test_a_job_to_be_kept_lives_on_and_its_held_rank_is_resumed(home, run_dir, mark):
    with controller(home, run_dir, mark, keep="keep") as subject:
        subject.kill()
        assert ends_within(subject.watchdog, 10)
        assert subject.ledger_is_clean()
        assert not subject.is_held()
        assert all(TABLE.is_alive(life) for life in (subject.held, subject.other))


def test_both_killed_leaves_a_dirty_host_that_heal_restores(home, run_dir, mark):
    with controller(home, run_dir, mark) as subject:
        subject.kill_watchdog()
        subject.kill()
        assert subject.is_held()
        with pytest.raises(HostDirty, match=mark) as refused:
            check(home)
        assert "resume_process, fault hang" in refused.value.message
        assert refused.value.remedy == "nvrx-chaos heal"

        told = heal(home, dry_run=True)
        assert subject.is_held(), "a dry run changes nothing"
        assert told.runs[0].entries[0].what == f"resume pid {subject.held.pid}"
        assert not told.clean

        report = heal(home)
        assert report.clean
        assert [entry.undone.how for entry in report.runs[0].entries if entry.undone.how not in ("done", "gone")] == []
        assert not subject.is_held()
        assert subject.job_is_gone()
        assert not subject.folder.path.exists()
        check(home)
        assert heal(home).runs == ()


def test_a_live_run_beside_us_is_not_dirty_and_heal_leaves_it_alone(home, run_dir, mark):
    with controller(home, run_dir, mark) as subject:
        check(home)
        report = heal(home)
        assert (report.runs[0].live, report.clean, report.removed) == (True, True, ())
        assert subject.is_held()
        assert [state.live for state in run_states(home)] == [True]


def test_a_child_of_the_controller_does_not_keep_the_pipe_open(home, run_dir, mark):
    """The job's processes outlive the controller by a moment; the watchdog must notice its end all the same."""
    with controller(home, run_dir, mark, keep="keep") as subject:
        pipes = {os.readlink(f"/proc/{subject.watchdog}/fd/{number}") for number in (0, 1)}
        for pid in subject.job:
            links = {os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")}
            assert not links & pipes
