from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading

import pytest
from system_jobs import TABLE, Job, ends_within, life_of, life_record, sleeper, wait_until

from chaos.errors import Broken, CannotCreate, CannotWrite, Refused, UsageError
from chaos.guard.dirty import check
from chaos.guard.guard import Guard
from chaos.guard.home import is_held
from chaos.guard.ledger import read_ledger
from chaos.model.undo import Undo
from chaos.system.processes import MARK


@pytest.fixture
def guard(home, run_dir, mark):
    guard = Guard.start(mark, run_dir, home=home, beat_s=0.2)
    yield guard
    guard.undo_all()
    guard.finish()
    assert ends_within(guard.watchdog_pid, 5)


def path_undo(path) -> Undo:
    path.touch()
    return Undo(verb="remove_path", args={"path": str(path)})


def held(process) -> Undo:
    """A process stopped, as by a fault; its undo."""
    life = life_of(process.pid)
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: TABLE.is_stopped(life), 2, "stopped")
    return Undo(verb="resume_process", args={"life": life_record(life)})


def on_disk(guard):
    return read_ledger(guard.folder.ledger)


def kill_watchdog(guard) -> None:
    os.kill(guard.watchdog_pid, signal.SIGKILL)
    assert ends_within(guard.watchdog_pid, 5)


def test_an_intent_is_on_disk_when_the_call_returns(guard, tmp_path):
    entry = guard.intend(path_undo(tmp_path / "made"), fault="kill")
    assert [(found.id, found.fault) for found in on_disk(guard).open_entries] == [(entry, "kill")]
    assert [found.id for found in guard.open_entries()] == [entry]


def test_an_undo_is_measured_and_asked_again_gives_the_same(guard, tmp_path):
    entry = guard.intend(path_undo(tmp_path / "made"))
    first = guard.undo(entry)
    assert (first.how, first.measured) == ("done", True)
    assert guard.undo(entry) == first
    assert on_disk(guard).open_entries == guard.open_entries() == ()


def test_undo_all_goes_on_after_one_that_fails(guard, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "theirs").touch()
    bad = guard.intend(Undo(verb="remove_path", args={"path": str(tmp_path / "full")}))
    good = guard.intend(path_undo(tmp_path / "made"))
    results = guard.undo_all()
    assert (results[bad].how, results[good].how) == ("failed", "done")
    assert [entry.id for entry in guard.open_entries()] == [bad]
    (tmp_path / "full" / "theirs").unlink()
    assert guard.undo(bad).how == "done"


def test_only_an_order_may_be_closed_on_somebodys_word(guard, tmp_path):
    with sleeper() as process:
        order = guard.intend(
            Undo(verb="disarm", args={"life": life_record(life_of(process.pid)), "lease_s": 3.0}), fault="kill"
        )
        guard.close_entry(order, "done")
        assert guard.open_entries() == ()
    path = guard.intend(path_undo(tmp_path / "made"))
    with pytest.raises(Broken, match="only be closed by undoing"):
        guard.close_entry(path, "done")
    with pytest.raises(Broken, match="no ledger entry"):
        guard.undo("e99")


def test_a_limit_that_passes_is_told_to_the_controller(guard):
    with sleeper() as process:
        entry = guard.intend(held(process), fault="hang", limit_s=0.2)
        wait_until(lambda: not guard.open_entries(), 3, "told")
        assert guard.undo(entry).how == "done"
        assert TABLE.is_stopped(life_of(process.pid)) is False


def test_a_clean_finish_copies_the_ledger_and_leaves_no_folder(home, run_dir, mark, tmp_path):
    guard = Guard.start(mark, run_dir, home=home)
    guard.undo(guard.intend(path_undo(tmp_path / "made")))
    assert guard.alive()
    assert guard.finish() is True
    assert guard.finish() is True
    assert not guard.alive()
    assert ends_within(guard.watchdog_pid, 0)
    assert len(read_ledger(run_dir / "ledger.jsonl").entries) == 1
    assert list(home.iterdir()) == []
    with pytest.raises(Broken, match="ended"):
        guard.intend(path_undo(tmp_path / "made"))


def test_a_finish_with_something_open_says_so_and_the_watchdog_tries_again(home, run_dir, mark, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "theirs").touch()
    guard = Guard.start(mark, run_dir, home=home)
    guard.intend(Undo(verb="remove_path", args={"path": str(tmp_path / "full")}))
    assert guard.finish() is False
    (tmp_path / "full" / "theirs").unlink()
    assert ends_within(guard.watchdog_pid, 10)
    guard._channel.kill()  # reaps it
    assert not (tmp_path / "full").exists()
    check(home)


def test_many_threads_may_ask_at_one_time(guard, tmp_path):
    results = {}

    def work(number):
        entry = guard.intend(path_undo(tmp_path / f"made{number}"))
        results[entry] = guard.undo(entry).how

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(results.values()) == ["done"] * 8
    assert len(on_disk(guard).entries) == 8


def test_the_watchdog_carries_no_mark_and_lives_in_a_session_of_its_own(home, run_dir, mark, monkeypatch):
    monkeypatch.setenv(MARK, "outer-run")
    guard = Guard.start(mark, run_dir, home=home)
    try:
        assert TABLE.info(guard.watchdog_pid).mark is None
        assert os.getsid(guard.watchdog_pid) == guard.watchdog_pid
        assert is_held(guard.folder.lock)
    finally:
        guard.finish()


def in_forked_child(say) -> str:
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(tell, say().encode())
        finally:
            os._exit(0)  # never back into the test
    os.waitpid(child, 0)
    os.close(tell)
    with os.fdopen(told) as pipe:
        return pipe.read()


def test_a_forked_child_of_the_controller_lets_go_of_the_pipes_and_may_not_undo(guard, tmp_path):
    pipes = {os.readlink(f"/proc/{guard.watchdog_pid}/fd/{number}") for number in (0, 1)}
    entry = guard.intend(path_undo(tmp_path / "made"))

    def child() -> str:
        own = subprocess.run(["ls", "-l", f"/proc/{os.getpid()}/fd"], capture_output=True, text=True).stdout
        assert "pipe:" in own
        try:
            guard.undo(entry)
        except Broken as problem:
            return f"{sorted(pipe for pipe in pipes if pipe in own)} {problem}"
        return "undone"

    assert in_forked_child(child).startswith("[] the guard was used in a forked child")
    assert guard.alive()
    assert (tmp_path / "made").exists()


# --- the watchdog dies or hangs


def test_without_its_watchdog_the_guard_undoes_by_itself_and_lets_no_harm_begin(guard, mark, tmp_path):
    stop = guard.intend(Undo(verb="stop_job", args={"mark": mark, "keep": False}))
    job = Job(mark)
    try:
        with sleeper() as process:
            hang = guard.intend(held(process), fault="hang")
            kill_watchdog(guard)
            wait_until(lambda: not guard.alive(), 2, "noticed")
            with pytest.raises(Refused, match="watchdog"):
                guard.intend(path_undo(tmp_path / "made"))
            results = guard.undo_all()
            assert {key: value.how for key, value in results.items()} == {hang: "done", stop: "done"}
            assert TABLE.is_stopped(life_of(process.pid)) is False
        assert on_disk(guard).open_entries == guard.open_entries() == ()
    finally:
        job.end()


def test_a_watchdog_that_dies_unnoticed_costs_no_undo(guard):
    with sleeper() as process:
        entry = guard.intend(held(process))
        kill_watchdog(guard)
        assert guard.undo(entry).how == "done"
        assert not guard.alive()


def test_a_watchdog_that_hangs_is_not_alive_and_is_replaced_not_joined(guard, monkeypatch):
    monkeypatch.setattr("chaos.guard.guard.UNDO_WAIT_S", 0.3)
    with sleeper() as process:
        entry = guard.intend(held(process))
        os.kill(guard.watchdog_pid, signal.SIGSTOP)
        wait_until(lambda: not guard.alive(), 5, "noticed")
        assert guard.undo(entry).how == "done"
        assert ends_within(guard.watchdog_pid, 0)
        assert on_disk(guard).open_entries == ()


def test_an_undo_after_the_watchdogs_death_is_done_even_if_the_ledger_cannot_be_had(guard, home):
    with sleeper() as process:
        entry = guard.intend(held(process))
        kill_watchdog(guard)
        guard.folder.ledger.rename(home / "away")
        guard.folder.ledger.symlink_to("/dev/full")
        undone = guard.undo(entry)
        assert (undone.how, undone.measured) == ("done", True)
        assert TABLE.is_stopped(life_of(process.pid)) is False
        # On disk it is open, so it is not called closed.
        assert [found.id for found in guard.open_entries()] == [entry]
        assert guard.finish() is False
        guard.folder.ledger.unlink()
        (home / "away").rename(guard.folder.ledger)


# --- the ledger cannot be written


def test_a_full_disk_means_no_harm_and_no_entry(home, run_dir, mark, tmp_path):
    guard = Guard.start(mark, run_dir, home=home)
    try:
        limit_file_size(guard.watchdog_pid, guard.folder.ledger.stat().st_size + 40)
        with pytest.raises(CannotWrite, match="nothing was injected") as refused:
            guard.intend(path_undo(tmp_path / "made"))
        assert str(guard.folder.ledger) in refused.value.message
        assert guard.open_entries() == ()
        # A part of the line may stand there; what is written when there is room again is whole.
        limit_file_size(guard.watchdog_pid, resource.RLIM_INFINITY)
        entry = guard.intend(path_undo(tmp_path / "made"))
        content = on_disk(guard)
        assert [found.id for found in content.open_entries] == [entry]
        assert content.unreadable == ()
        assert guard.undo(entry).how == "done"
    finally:
        assert guard.finish() is True


def test_an_undo_on_a_full_disk_is_done_and_its_entry_stays_open(home, run_dir, mark):
    guard = Guard.start(mark, run_dir, home=home)
    try:
        with sleeper() as process:
            entry = guard.intend(held(process))
            limit_file_size(guard.watchdog_pid, guard.folder.ledger.stat().st_size)
            undone = guard.undo(entry)
            assert (undone.how, undone.measured) == ("done", True)
            assert "stays open" in undone.detail
            assert TABLE.is_stopped(life_of(process.pid)) is False
            assert [found.id for found in guard.open_entries()] == [entry]
            limit_file_size(guard.watchdog_pid, resource.RLIM_INFINITY)
            guard.undo(entry)
            assert guard.open_entries() == ()
    finally:
        assert guard.finish() is True


def limit_file_size(pid: int, size: int) -> None:
    """The kernel then refuses the watchdog's writes past that size, as a full disk does."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_a_home_that_cannot_be_made_is_told_with_the_remedy(run_dir, mark, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CannotCreate, match="file") as refused:
        Guard.start(mark, run_dir, home=tmp_path / "file" / "home")
    assert "NVRX_CHAOS_HOME" in refused.value.remedy


def test_a_run_id_in_use_or_unusable_is_refused(guard, home, run_dir, mark):
    with pytest.raises(CannotCreate, match="already"):
        Guard.start(mark, run_dir, home=home)
    for bad in ("", "..", "a/b"):
        with pytest.raises(UsageError):
            Guard.start(bad, run_dir, home=home)


def test_a_watchdog_that_cannot_open_its_ledger_is_an_error_and_no_run(home, run_dir, mark, monkeypatch):
    made = []
    monkeypatch.setattr("chaos.guard.channel.subprocess.Popen", spoiled_popen(made, home / mark))
    with pytest.raises(CannotWrite, match="ledger"):
        Guard.start(mark, run_dir, home=home)
    assert ends_within(made[0].pid, 0)
    assert list(home.iterdir()) == []


def spoiled_popen(made, folder):
    """Puts a full device in the ledger's place before the watchdog starts."""
    popen = subprocess.Popen

    def start(*arguments, **options):
        (folder / "ledger.jsonl").symlink_to("/dev/full")
        made.append(popen(*arguments, **options))
        return made[-1]

    return start


def test_the_watchdog_loads_nothing_heavy():
    """It has to be up before the job, and to live on when memory is short."""
    script = "import sys, chaos.guard.watchdog; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "numpy", "chaoslib", "psutil", "rich", "jinja2", "asyncio"} & set(loaded)
