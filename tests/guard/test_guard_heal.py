"""Dirty hosts made by hand; those left by real crashes are in test_guard_survives."""

from __future__ import annotations

import os
import signal

import msgspec
import pytest
from system_jobs import TABLE, life_of, life_record, sleeper, wait_until

from chaos.clock import RealClock
from chaos.errors import CannotWrite, HostDirty
from chaos.guard.custody import Custody
from chaos.guard.dirty import check
from chaos.guard.heal import heal
from chaos.guard.home import Lock, RunFolder, RunRecord, home_path, is_held, make_run_folder
from chaos.guard.ledger import LedgerWriter, read_ledger
from chaos.model.undo import Undo
from chaos.system.proc import boot_id
from chaos.system.processes import this_life
from chaos.system.undo import Undoer

OLD_BOOT = "00000000-0000-0000-0000-000000000000"


def dead_life(**changes):
    return msgspec.structs.replace(this_life(), start_ticks=1, **changes)


def left_behind(home, run_id, *undos, boot=None, controller=None) -> RunFolder:
    """The folder of a run whose controller and watchdog have ended."""
    record = RunRecord(run_id=run_id, run_dir=str(home), controller=controller or dead_life(), started_wall_s=0.0)
    folder = make_run_folder(home, record)
    boot, clock = boot or boot_id(), RealClock()
    ledger = LedgerWriter(folder.ledger, boot_id=boot, clock=clock)
    custody = Custody(ledger=ledger, undoer=Undoer(), clock=clock, boot_id=boot)
    for undo in undos:
        custody.open(undo, "hang", None)
    ledger.close()
    return folder


def path_undo(path) -> Undo:
    return Undo(verb="remove_path", args={"path": str(path)})


def test_a_home_that_was_never_made_is_not_dirty(home):
    check(home)
    assert heal(home).clean


def test_every_dirty_run_is_named_with_its_entries(home, tmp_path):
    left_behind(home, "one", path_undo(tmp_path / "a"))
    left_behind(home, "two", path_undo(tmp_path / "b"), path_undo(tmp_path / "c"))
    with pytest.raises(HostDirty, match=r"run one: e1 .*run two: e1 .*, e2 ") as refused:
        check(home)
    assert (refused.value.exit_status, refused.value.remedy) == (2, "nvrx-chaos heal")


def test_heal_undoes_proves_closes_and_removes(home, tmp_path):
    (tmp_path / "made").touch()
    folder = left_behind(home, "one", path_undo(tmp_path / "made"))
    report = heal(home)
    assert [(found.id, found.undone.how, found.healed) for found in report.runs[0].entries] == [("e1", "done", True)]
    assert (report.clean, report.removed) == (True, (str(folder.path),))
    assert not (tmp_path / "made").exists()
    assert heal(home) == heal(home)


@pytest.mark.parametrize("asked", [{"list_only": True}, {"dry_run": True}])
def test_looking_changes_nothing(home, tmp_path, asked):
    (tmp_path / "made").touch()
    folder = left_behind(home, "one", path_undo(tmp_path / "made"))
    before = folder.ledger.read_bytes()
    report = heal(home, **asked)
    assert (report.runs[0].entries[0].what, report.runs[0].entries[0].undone) == (f"remove {tmp_path / 'made'}", None)
    assert (report.clean, report.removed, folder.ledger.read_bytes()) == (False, (), before)
    assert (tmp_path / "made").exists()


def test_after_a_reboot_the_processes_are_gone_whoever_has_their_pid_now(home, mark):
    with sleeper() as process:
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: TABLE.is_stopped(life_of(process.pid)), 2, "stopped")
        before = msgspec.structs.replace(life_of(process.pid), boot_id=OLD_BOOT)
        left_behind(
            home,
            "one",
            Undo(verb="resume_process", args={"life": life_record(before)}),
            Undo(verb="disarm", args={"life": life_record(before), "lease_s": 60.0}),
            Undo(verb="stop_job", args={"mark": mark, "keep": False}),
            boot=OLD_BOOT,
        )
        report = heal(home)
        assert [found.undone.how for found in report.runs[0].entries] == ["gone"] * 3
        assert report.clean
        assert TABLE.is_stopped(life_of(process.pid))


def test_what_cannot_be_healed_is_told_and_stays_dirty(home, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "theirs").touch()
    (tmp_path / "made").touch()
    left_behind(home, "one", path_undo(tmp_path / "full"), path_undo(tmp_path / "made"))
    report = heal(home)
    assert sorted(found.undone.how for found in report.runs[0].entries) == ["done", "failed"]
    assert (report.clean, report.removed) == (False, ())
    with pytest.raises(HostDirty, match="e1"):
        check(home)


def test_a_damaged_ledger_is_dirty_and_never_removed(home, tmp_path):
    folder = left_behind(home, "one", path_undo(tmp_path / "a"))
    folder.ledger.write_bytes(b"garbage}\n" + folder.ledger.read_bytes())
    with pytest.raises(HostDirty, match=r"damaged line\(s\) 1"):
        check(home)
    report = heal(home)
    assert report.runs[0].entries[0].healed
    assert (report.clean, folder.path.exists()) == (False, True)


def test_a_ledger_that_cannot_be_written_keeps_the_undo_and_stays_dirty(home, tmp_path, monkeypatch):
    (tmp_path / "made").touch()
    left_behind(home, "one", path_undo(tmp_path / "made"))

    def full(self, fields):
        raise CannotWrite("disk full")

    monkeypatch.setattr(LedgerWriter, "_append", full)
    report = heal(home)
    assert not (tmp_path / "made").exists()
    assert "disk full" in report.runs[0].problem
    assert not report.clean


def test_a_clean_folder_goes_when_its_controller_is_gone_and_not_before(home):
    left_behind(home, "old")
    starting = left_behind(home, "starting", controller=this_life())
    check(home)
    assert heal(home, dry_run=True).removed == (str(home / "old"),)
    assert heal(home).removed == (str(home / "old"),)
    assert starting.path.exists()


def test_a_folder_without_a_record_is_left_for_a_minute(home):
    folder = left_behind(home, "new")
    (folder.path / "run.json").unlink()
    assert heal(home).removed == ()
    os.utime(folder.path, (0, 0))
    assert heal(home).removed == (str(folder.path),)


def test_two_heals_at_one_time_do_not_meet(home, tmp_path):
    folder = left_behind(home, "one", path_undo(tmp_path / "a"))
    lock = Lock.take(folder.lock)
    assert lock is not None
    try:
        assert is_held(folder.lock)
        assert heal(home).runs[0].live
        assert Lock.take(folder.lock) is None
    finally:
        lock.release()
    assert not is_held(folder.lock)
    assert len(read_ledger(folder.ledger).open_entries) == 1


def test_a_home_that_cannot_be_read_is_not_called_clean(tmp_path):
    (tmp_path / "home").touch()
    with pytest.raises(CannotWrite, match="cannot be read"):
        check(tmp_path / "home")


@pytest.mark.parametrize(
    ("user", "environment", "expected"),
    [
        (0, {}, "/var/lib/nvrx-chaos"),
        (0, {"XDG_STATE_HOME": "/x"}, "/var/lib/nvrx-chaos"),
        (7, {"HOME": "/h"}, "/h/.local/state/nvrx-chaos"),
        (7, {"HOME": "/h", "XDG_STATE_HOME": "/x"}, "/x/nvrx-chaos"),
        (7, {"HOME": "/h", "XDG_STATE_HOME": "relative"}, "/h/.local/state/nvrx-chaos"),
        (0, {"NVRX_CHAOS_HOME": "/own"}, "/own"),
        (7, {"NVRX_CHAOS_HOME": "/own", "XDG_STATE_HOME": "/x"}, "/own"),
    ],
)
def test_the_home_is_where_the_documentation_says(user, environment, expected, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert str(home_path(environment)) == expected
