from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from system_jobs import PYTHON, TABLE, FakeTable, fake_life, life_of, row, sleeper, wait_until

from chaos.errors import Refused, TargetGone
from chaos.model.events import life_id
from chaos.system import proc
from chaos.system.processes import MARK, PidfdKiller, ProcessTable, protected_pids, this_life, with_descendants


@pytest.fixture
def sent(monkeypatch):
    """Signals that would have been sent; none really is, so that a test may aim at itself."""
    signals = []
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda handle, number: signals.append(number))
    return signals


def test_a_process_and_the_table_agree_on_its_life():
    life = this_life()
    namespace = os.stat("/proc/self/ns/pid").st_ino
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    assert life == TABLE.info(os.getpid()).life
    assert life.id == life_id(proc.boot_id(), namespace, os.getpid(), ticks)


def test_the_table_shows_mark_environment_command_and_parent(mark):
    with sleeper(mark) as process:
        info = TABLE.info(process.pid)
        assert (info.mark, info.ppid, info.command[-1]) == (mark, os.getpid(), "import time; time.sleep(300)")
        assert info.environment[MARK] == mark
        assert [found.life for found in TABLE.snapshot() if found.mark == mark] == [info.life]
        assert process.pid in TABLE.pids()


def test_stopped_running_and_gone_are_told_apart():
    with sleeper() as process:
        life = life_of(process.pid)
        assert TABLE.is_stopped(life) is False
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: TABLE.is_stopped(life), 2, "stopped")
        assert TABLE.is_alive(life)
        process.kill()
        wait_until(lambda: TABLE.is_stopped(life) is None, 2, "gone")
        # A zombie by now: still in the table, and not alive.
        assert TABLE.info(process.pid).state == "Z"
        assert not TABLE.is_alive(life)
    assert TABLE.info(process.pid) is None


def test_a_life_of_another_boot_or_start_is_not_alive():
    with sleeper() as process:
        life = life_of(process.pid)
        assert not TABLE.is_alive(fake_life(process.pid, life.start_ticks))
        assert not TABLE.is_alive(fake_life(process.pid, life.start_ticks + 1, boot_id=life.boot_id))


def test_a_name_with_parentheses_does_not_shift_the_fields():
    rename = "import time; open('/proc/self/comm', 'w').write('a) Z 1 (b'); print(flush=True); time.sleep(300)"
    with sleeper(command=[*PYTHON, "-c", rename], stdout=-1) as process:
        process.stdout.readline()
        stat = proc.read_stat(process.pid)
        assert stat.ppid == os.getpid()
        assert stat.state in "RS"


def test_a_process_whose_main_thread_ended_first_still_runs(tmp_path):
    def write(path, state, threads):
        path.mkdir(parents=True)
        numbers = [0] * 50
        numbers[20 - 3], numbers[22 - 3] = threads, 77
        path.joinpath("stat").write_text(f"9 (x) {state} {' '.join(map(str, numbers[1:]))}")

    write(tmp_path / "9", "Z", 2)
    write(tmp_path / "9" / "task" / "9", "Z", 2)
    write(tmp_path / "9" / "task" / "10", "D", 2)
    assert proc.true_state(proc.read_stat(9, tmp_path), tmp_path) == "D"


def test_descendants_are_found_whatever_the_order_of_rows():
    rows = [row(5, ppid=4), row(4, ppid=3), row(3), row(9), row(10, ppid=9)]
    assert [found.pid for found in with_descendants(rows, {3})] == [5, 4, 3]


def test_a_marked_process_is_signalled(mark):
    with sleeper(mark) as process:
        PidfdKiller(TABLE).send(life_of(process.pid), signal.SIGUSR1, mark=mark)
        assert process.wait(5) == -signal.SIGUSR1


def test_a_child_of_a_marked_process_needs_no_mark_of_its_own(mark):
    # The child's environment is empty, as after setproctitle.
    script = "import subprocess; p = subprocess.Popen(['sleep', '300'], env={}); print(p.pid, flush=True); p.wait()"
    with sleeper(mark, command=[*PYTHON, "-c", script], stdout=-1) as parent:
        child = life_of(int(parent.stdout.readline()))
        assert TABLE.info(child.pid).mark is None
        PidfdKiller(TABLE).send(child, signal.SIGKILL, mark=mark)
        assert parent.wait(5) == 0
    assert not TABLE.is_alive(child)


@pytest.mark.parametrize(("own_mark", "asked"), [(None, "run-a"), ("run-b", "run-a"), (None, ""), ("", "")])
def test_a_process_that_nothing_proves_to_be_ours_is_not_signalled(own_mark, asked):
    with sleeper(own_mark) as process:
        life = life_of(process.pid)
        with pytest.raises(Refused, match=str(process.pid)):
            PidfdKiller(TABLE).send(life, signal.SIGKILL, mark=asked)
        assert TABLE.is_alive(life)


def test_the_mark_of_another_run_beats_descent_from_ours(sent):
    with sleeper() as process:
        table = FakeTable(row(process.pid, ppid=7, mark="theirs"), row(7, mark="ours"))
        with pytest.raises(Refused, match="theirs"):
            PidfdKiller(table).send(fake_life(process.pid), signal.SIGKILL, mark="ours")
    assert sent == []


def test_the_nearest_marked_ancestor_decides(sent):
    with sleeper() as process:
        table = FakeTable(row(process.pid, ppid=8), row(8, ppid=7, mark="theirs"), row(7, mark="ours"))
        with pytest.raises(Refused):
            PidfdKiller(table).send(fake_life(process.pid), signal.SIGKILL, mark="ours")
    assert sent == []


def test_a_life_known_as_family_needs_no_other_proof(sent):
    with sleeper() as process:
        table = FakeTable(row(process.pid))
        PidfdKiller(table).send(fake_life(process.pid), signal.SIGKILL, mark="ours", family={fake_life(process.pid)})
    assert sent == [signal.SIGKILL]


def test_neither_we_nor_our_ancestors_nor_pid_1_are_signalled(sent):
    rows = {pid: row(pid, ppid=ppid, mark="ours") for pid, ppid in ((os.getpid(), os.getppid()), (os.getppid(), 1))}
    table = FakeTable(*rows.values(), row(1, ppid=0, mark="ours"))
    assert protected_pids(table) == {1, os.getpid(), os.getppid()}
    for pid in (1, os.getpid(), os.getppid()):
        with pytest.raises(Refused, match="ancestors"):
            PidfdKiller(table).send(fake_life(pid), signal.SIGKILL, mark="ours")
    assert sent == []


def test_a_pid_reused_between_choice_and_signal_is_never_signalled(mark):
    """The chosen process has ended and its pid is another's by the time the handle is open."""
    with sleeper(mark) as process:
        chosen = life_of(process.pid)
        earlier = fake_life(process.pid, chosen.start_ticks - 1, boot_id=chosen.boot_id)
        for attempt in (
            lambda: PidfdKiller(TABLE).send(earlier, signal.SIGKILL, mark=mark),
            lambda: PidfdKiller(TABLE).resume(earlier),
        ):
            with pytest.raises(TargetGone, match="no signal sent"):
                attempt()
        assert TABLE.is_alive(chosen)


def test_a_pid_reused_after_the_handle_was_opened_is_never_signalled(mark):
    """The table shows the right life, yet the handle is on a process that has ended: the kernel tells them apart."""
    with sleeper(mark) as ended, sleeper(mark) as bystander:
        life = life_of(ended.pid)

        class ReusedWhileAsked(ProcessTable):
            def info(self, pid):
                if pid != life.pid:
                    return super().info(pid)
                found = super().info(pid)
                ended.kill()
                ended.wait()  # reaped: its pid is free, and may be the bystander's from here on
                return found

        with pytest.raises(TargetGone, match="before it could be signalled"):
            PidfdKiller(ReusedWhileAsked()).send(life, signal.SIGKILL, mark=mark)
        assert TABLE.is_alive(life_of(bystander.pid))


def test_an_ended_target_is_told_as_gone(mark):
    with sleeper(mark) as process:
        life = life_of(process.pid)
        process.kill()
        wait_until(lambda: not TABLE.is_alive(life), 2, "a zombie")
        with pytest.raises(TargetGone):
            PidfdKiller(TABLE).send(life, signal.SIGKILL, mark=mark)
    with pytest.raises(TargetGone, match="no process"):
        PidfdKiller(TABLE).send(life, signal.SIGKILL, mark=mark)
