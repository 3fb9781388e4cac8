from __future__ import annotations

import signal
import subprocess

import pytest
from system_jobs import PYTHON, TABLE, ends_within, fake_life, life_of, sleeper, wait_until

from chaos.system import exit_status, proc
from chaos.system.exit_status import ExitStatus, ExitWatcher

PARENT = """
import subprocess, sys
child = subprocess.Popen(['sleep', '300'])
print(child.pid, flush=True)
sys.stdin.readline()
child.wait()
print('reaped', flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def watcher():
    watcher = ExitWatcher(TABLE)
    yield watcher
    watcher.close()


@pytest.fixture
def grandchild():
    """(life of a process that is not our child, a call that lets its parent reap it)"""
    with sleeper(command=[*PYTHON, "-c", PARENT], stdin=-1, stdout=-1, text=True) as parent:
        life = life_of(int(parent.stdout.readline()))

        def reap():
            parent.stdin.write("\n")
            parent.stdin.flush()
            assert parent.stdout.readline() == "reaped\n"

        try:
            yield life, reap
        finally:
            if TABLE.is_alive(life):
                subprocess.run(["kill", "-9", str(life.pid)], check=True)


def kill(life, number):
    subprocess.run(["kill", f"-{int(number)}", str(life.pid)], check=True)
    assert ends_within(life.pid, 5)


def test_our_own_child_tells_its_code_and_can_still_be_waited_for(watcher):
    with sleeper(command=["sh", "-c", "read line; exit 7"], stdin=-1) as process:
        life = life_of(process.pid)
        assert watcher.watch(life)
        process.stdin.close()
        assert watcher.poll(5) == {life: ExitStatus(code=7, source="child")}
        assert process.wait(5) == 7


def test_a_reaped_process_that_is_not_our_child_tells_its_signal(watcher, grandchild):
    life, reap = grandchild
    assert watcher.watch(life)
    kill(life, signal.SIGKILL)
    reap()
    assert watcher.poll() == {life: ExitStatus(signal=9, source="pidfd")}


def test_a_process_that_nobody_has_reaped_yet_tells_its_signal(watcher, grandchild):
    life, _ = grandchild
    assert watcher.watch(life)
    kill(life, signal.SIGTERM)
    wait_until(lambda: proc.read_stat(life.pid).state == "Z", 2, "a zombie")
    assert watcher.poll() == {life: ExitStatus(signal=15, source="pidfd")}


def test_without_the_kernels_help_a_reaped_process_is_unknown_and_never_guessed(watcher, grandchild, monkeypatch):
    monkeypatch.setattr(exit_status, "_PIDFD_GET_INFO", 0x1)  # as on a kernel that does not know it
    life, reap = grandchild
    assert watcher.watch(life)
    kill(life, signal.SIGKILL)
    reap()
    assert watcher.poll() == {life: ExitStatus()}


def test_each_end_is_told_once_and_the_living_are_not_told(watcher):
    with sleeper() as one, sleeper() as other:
        lives = [life_of(one.pid), life_of(other.pid)]
        assert all(watcher.watch(life) for life in (*lives, *lives))
        one.kill()
        assert list(watcher.poll(5)) == [lives[0]]
        assert watcher.poll() == {}


def test_a_life_that_has_ended_or_is_another_cannot_be_watched(watcher):
    with sleeper() as process:
        life = life_of(process.pid)
        assert not watcher.watch(fake_life(process.pid, life.start_ticks))
        process.kill()
        process.wait()
        assert not watcher.watch(life)
    assert watcher.poll() == {}
