from __future__ import annotations

import os

import pytest
from system_jobs import PYTHON, TABLE, life_of, sleeper

from chaos.system import proc
from chaos.system.residue import Residue, measure, shared_memory_names

LISTENER = "import socket, time; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)"


@pytest.fixture
def memory(tmp_path):
    folder = tmp_path / "shm"
    folder.mkdir()
    (folder / "old").touch()
    return folder


def left(mark, memory, **changes) -> Residue:
    asked = {"lives": (), "shared_memory_before": frozenset({"old"}), "shared_memory": memory, **changes}
    return measure(TABLE, mark=mark, **asked)


def test_a_job_that_left_nothing_is_measured_as_nothing(mark, memory, tmp_path):
    residue = left(mark, memory, temporary_folder=tmp_path / "never-made", since_ticks=proc.boot_ticks_now())
    assert residue == Residue()
    assert residue.nothing


def test_a_process_left_is_named_with_the_port_it_listens_on(mark, memory):
    with sleeper(mark, command=[*PYTHON, "-c", f"{LISTENER}; time.sleep(300)"], stdout=-1, text=True) as process:
        port = int(process.stdout.readline())
        residue = left(mark, memory)
    assert [text.split(":")[0] for text in residue.processes] == [f"pid {process.pid}"]
    assert residue.ports == (f"tcp {port} (pid {process.pid})",)
    assert not residue.nothing


def test_a_process_left_without_its_mark_is_found_by_its_life(mark, memory):
    with sleeper() as process:
        assert left(mark, memory).processes == ()
        assert len(left(mark, memory, lives=[life_of(process.pid)]).processes) == 1


def test_an_ended_life_whose_pid_is_anothers_now_is_not_left(mark, memory):
    with sleeper() as process:
        life = life_of(process.pid)
        other = type(life)(
            boot_id=life.boot_id, pid_namespace=1, pid_inside=1, pid=life.pid, start_ticks=life.start_ticks - 5
        )
        assert left(mark, memory, lives=[other]).processes == ()


def test_new_shared_memory_is_left_and_old_is_not(mark, memory):
    (memory / "new").touch()
    assert left(mark, memory).shared_memory == ("new",)


def test_shared_memory_that_another_process_uses_or_has_named_is_not_the_jobs(mark, memory):
    (memory / "open-elsewhere").touch()
    (memory / f"torch_{os.getpid()}_1_0").touch()
    (memory / "torch_4000000_1_0").touch()
    with sleeper() as other, open(memory / "open-elsewhere"):
        job_life = life_of(other.pid)
        (memory / f"torch_{other.pid}_1_0").touch()
        assert left(mark, memory, lives=[job_life]).shared_memory == (f"torch_{other.pid}_1_0",)


def test_temporary_files_are_named_and_a_flood_of_them_is_counted(mark, memory, tmp_path):
    folder = tmp_path / "tmp"
    (folder / "empty").mkdir(parents=True)
    for number in range(60):
        (folder / f"{number:02}").touch()
    files = left(mark, memory, temporary_folder=folder).temporary_files
    assert (files[0], files[-1], len(files)) == ("00", "and 10 more", 51)


def test_a_folder_that_cannot_be_read_is_told_and_not_taken_for_empty(mark, tmp_path):
    residue = left(mark, tmp_path / "missing")
    assert not residue.readable
    assert not residue.nothing
    assert "shared memory" in residue.unreadable[0]


def test_a_later_process_of_our_user_that_hides_its_environment_is_told(mark, memory, monkeypatch):
    since = proc.boot_ticks_now()
    with sleeper() as process:
        readable = proc.environment
        monkeypatch.setattr(
            proc, "environment", lambda pid, *root: None if pid == process.pid else readable(pid, *root)
        )
        assert str(process.pid) in left(mark, memory, since_ticks=since).unreadable[0]


def test_what_lies_in_shared_memory_is_listed(memory):
    assert shared_memory_names(memory) == {"old"}
