"""Full disks, folders that cannot be made or vanish, a defect of ours: the job is stopped all the same."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_runs import BROKEN, IN_JOB, NO_CONTROLS, check, state_of, traceback_in

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

NO_CREATE, NO_WRITE, OUR_CRASH = 73, 74, 70
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


def hang(place, **job):
    return place.scenario(
        "hang",
        job={**IN_JOB, **job},
        faults=[{"name": "hang", "fault": "process.hang", "target": {"rank": 1}, "at": {"step": 30}}],
        objective={"recovered_by": "in_job", "recovery_time": "20s", "checks": NO_CONTROLS},
    )


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A file system of its own there; gone afterwards, whatever happens."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "nvrx-chaos-test", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@needs_root
def test_a_full_disk_ends_the_run_in_words_and_stops_the_job(place):
    with mounted(place.out, "size=2m"):
        ended = place.run(hang(place))
        assert ended.status in (NO_CREATE, NO_WRITE), ended.err
        assert "No space left on device" in ended.err
        assert not traceback_in(ended)
        assert place.left() == []


@pytest.mark.slow
def test_a_file_size_limit_ends_the_run_in_words_and_stops_the_job(place):
    """What a full disk is to a user without root: no file may grow beyond the first events."""
    scenario = hang(place)
    limit = ["prlimit", "--fsize=20000", "--"]
    ended = place.run(scenario, under=limit)
    assert ended.status in (NO_CREATE, NO_WRITE), ended.err
    assert "File too large" in ended.err or "a line was cut" in ended.err
    assert not traceback_in(ended)
    assert place.left() == []


def test_an_output_folder_below_a_file_is_refused_in_words(place):
    (place.folder / "file").write_text("not a folder")
    place.out = place.folder / "file" / "out"
    ended = place.run(hang(place))
    assert ended.status == NO_CREATE, ended.err
    assert str(place.out) in ended.err and "--out" in ended.err
    assert not traceback_in(ended)


@needs_root
def test_a_read_only_output_folder_is_refused_in_words(place):
    with mounted(place.out, "ro,size=1m"):
        ended = place.run(hang(place))
        assert ended.status == NO_CREATE, ended.err
        assert "Read-only file system" in ended.err and "--out" in ended.err
        assert not traceback_in(ended)


def test_a_run_folder_deleted_in_mid_run_leaves_nothing_stopped_and_nothing_running(place):
    run = place.start(hang(place))
    fired = run.wait_for("fault_fired")
    shutil.rmtree(run.run_dir)
    ended = run.finish()
    assert ended.status in (NO_CREATE, NO_WRITE), ended.err
    assert str(run.out) in ended.err and "vanished" in ended.err
    assert not traceback_in(ended)
    assert state_of(fired.data["pid"]) in ("", "Z")
    assert place.left() == []


def test_a_defect_of_ours_undoes_the_fault_and_ends_with_70(place):
    run = place.start(hang(place), env={"PYTHONPATH": str(BROKEN), "NVRX_BROKEN": "injector_crashes"})
    fired = run.wait_for("fault_fired")
    ended = run.finish()
    assert ended.status == OUR_CRASH, ended.err
    assert check(ended.verdict, "undone")["outcome"] == "pass"
    assert ended.verdict["outcome"] != "passed"
    assert state_of(fired.data["pid"]) in ("", "Z")
    assert "ZeroDivisionError" in ended.err and not traceback_in(ended)
    assert place.left() == []
