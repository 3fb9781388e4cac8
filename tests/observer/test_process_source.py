"""Processes of a job come and go: when each is told, and how it ended. What each is: test_process_roles."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid

import pytest
from observer_build import MARK, life, told

from chaos.observer.known import TICKS_PER_S, born_between
from chaos.observer.process_source import ProcessSource
from chaos.observer.roles import SETTLES_S
from chaos.observer.telling import LAUNCHER_SAYS_S
from chaos.system.exit_status import ExitWatcher
from chaos.system.processes import ProcessTable


@pytest.fixture
def source(host, writer, now):
    source = ProcessSource(MARK, host, host, writer)
    host.add(10, command="ft_launcher")
    source.watch_launcher(10)
    source.step()
    return source


def test_the_first_process_is_the_launcher(source, writer):
    (seen,) = writer.of("process_appeared")
    assert (seen["pid"], seen["role"], seen["header_rank"], seen["life"]) == (10, "launcher", None, life(10).id)
    assert seen["command"] == "ft_launcher x.py" and seen["of_rank"] is None


def test_a_child_of_the_launcher_with_a_rank_is_that_rank(source, host, writer):
    host.add(11, ppid=10, RANK="1")
    source.step()
    seen = writer.of("process_appeared")[1]
    assert (seen["role"], seen["header_rank"], seen["of_rank"], seen["ppid"]) == ("rank", 1, None, 10)


def test_a_helper_of_a_rank_is_told_without_a_rank_of_its_own_and_with_the_one_it_serves(source, host, writer):
    host.add(11, ppid=10, RANK="1")
    host.add(12, ppid=11, RANK="1", name="pt_data_worker")
    source.step()
    seen = writer.of("process_appeared")[2]
    assert (seen["role"], seen["header_rank"], seen["of_rank"]) == ("data_worker", None, 1)


def test_a_fork_of_the_launcher_is_told_when_it_can_no_longer_become_a_rank_with_the_time_it_was_seen(
    source, host, writer, now
):
    host.add(11, ppid=10, command="ft_launcher")
    host.add(12, ppid=10, command="ft_launcher")
    source.step()
    assert len(writer.of("process_appeared")) == 1
    host.add(12, ppid=10, RANK="0")  # it was between fork and exec
    now.advance(SETTLES_S)
    source.step()
    assert [(seen["pid"], seen["role"], seen["t_ns"]) for seen in writer.of("process_appeared")[1:]] == [
        (11, "rank_monitor", born_between(life(11))[1]), (12, "rank", born_between(life(12))[1]),
    ]  # fmt: skip


def test_a_launcher_that_was_seen_before_it_became_nvrxs_still_has_its_monitors_told(source, host, writer, now):
    host.add(10, command="python")  # what `python -m trainer` is before it executes the launcher
    source.step()
    host.add(10, command="ft_launcher")
    host.add(11, ppid=10, command="ft_launcher")
    source.step()
    now.advance(SETTLES_S)
    source.step()
    assert writer.of("process_appeared")[-1]["role"] == "rank_monitor"


def test_what_a_rank_forks_inside_its_saving_call_is_told_as_a_checkpoint_writer(source, host, writer, now):
    rank = host.add(11, ppid=10, RANK="1")
    source.step()
    born_ns = born_between(life(12))[0]
    host.add(12, ppid=11, RANK="1")
    source.step()
    source.hear(told("checkpoint_began", rank, at_ns=born_ns - 1_000_000))
    host.end(12, code=0)
    source.hear(told("checkpoint_staged", rank, at_ns=born_ns + 1_000_000))
    source.step()
    (end,) = writer.of("process_exited")
    assert (end["role"], end["code"]) == ("checkpoint_writer", 0)
    assert writer.of("process_appeared")[2]["of_rank"] == 1


def test_a_fork_of_a_rank_that_nothing_explains_is_told_as_other_after_a_while_with_its_true_times(
    source, host, writer, now
):
    host.add(11, ppid=10, RANK="1")
    source.step()
    host.add(12, ppid=11, RANK="1")
    source.step()
    now.advance(0.3)
    host.end(12, signal=9)
    ended_ns = now.ns
    source.step()
    assert len(writer.events) == 2
    now.advance(SETTLES_S)
    source.step()
    (kind, seen), (_, end) = writer.events[2:]
    assert (kind, seen["role"], seen["t_ns"]) == ("process_appeared", "other", born_between(life(12))[1])
    assert (end["role"], end["signal"], end["t_ns"]) == ("other", 9, ended_ns)


@pytest.mark.parametrize("mark", [None, "another-run"])
def test_processes_of_others_are_not_ours(source, host, writer, mark):
    host.add(50, mark=mark)
    source.step()
    host.end(50, code=0)
    source.step()
    assert len(writer.events) == 1


def test_a_child_of_ours_that_lost_the_mark_is_still_ours(source, host, writer):
    host.add(11, ppid=10, RANK="0")
    source.step()
    host.add(13, ppid=11, mark=None, command="nvidia-smi")
    source.step()
    assert [seen["pid"] for seen in writer.of("process_appeared")] == [10, 11, 13]


@pytest.mark.parametrize("how", [{"signal": 9}, {"code": 3}, {"code": 0}])
def test_the_end_carries_role_signal_and_code(source, host, writer, how):
    host.add(11, ppid=10, RANK="1")
    source.step()
    host.end(11, **how)
    source.step()
    (end,) = writer.of("process_exited")
    assert (end["role"], end["header_rank"], end["life"], end["source"]) == ("rank", 1, life(11).id, "pidfd")
    assert (end["signal"], end["code"]) == (how.get("signal"), how.get("code"))
    assert [known.life.pid for known in source.alive()] == [10]


def test_an_end_is_told_once(source, host, writer):
    host.end(10, code=0)
    source.step()
    source.step()
    assert len(writer.of("process_exited")) == 1


def test_a_process_whose_end_cannot_be_watched_is_missed_by_looking(source, host, writer, now):
    host.unwatchable.add(11)
    host.add(11, ppid=10, RANK="0")
    source.step()
    host.end(11)
    source.step()
    now.advance(LAUNCHER_SAYS_S)
    source.step()
    (end,) = writer.of("process_exited")
    assert (end["code"], end["signal"], end["source"]) == (None, None, "none")


def test_a_process_that_ends_before_its_role_is_known_still_appears_first(source, host, writer):
    host.add(11, ppid=10, command="ft_launcher")
    source.step()
    host.end(11, code=1)
    source.step()
    assert writer.kinds() == ["process_appeared", "process_appeared", "process_exited"]
    assert writer.of("process_exited")[0]["role"] == "other"


def test_a_pid_used_again_is_another_life(source, host, writer):
    host.add(11, ppid=10, RANK="0")
    source.step()
    host.end(11, signal=9)
    host.add(11, ppid=10, RANK="0", start_ticks=999)
    source.step()
    assert [seen["life"] for seen in writer.of("process_appeared")][1:] == [life(11).id, life(11, 999).id]
    assert writer.of("process_exited")[0]["life"] == life(11).id


def test_a_launcher_that_was_seen_between_fork_and_exec_is_found_again(host, writer):
    source = ProcessSource(MARK, host, host, writer)
    host.add(10, mark=None, command="our own child")
    source.step()
    host.add(10, command="launcher")
    source.watch_launcher(10)
    source.step()
    assert [seen["role"] for seen in writer.of("process_appeared")] == ["launcher"]


def test_what_is_still_unclear_at_the_end_is_told_as_it_is(source, host, writer):
    host.add(11, ppid=10, RANK="1")
    source.step()
    host.add(12, ppid=11, RANK="1")
    host.add(13, ppid=11, RANK="1")
    source.step()
    host.end(12, code=4)
    source.step()
    source.close()
    assert [(seen["pid"], seen["role"]) for seen in writer.of("process_appeared")[2:]] == [(13, "other"), (12, "other")]
    assert [(end["pid"], end["code"]) for end in writer.of("process_exited")] == [(12, 4)]


def test_a_process_found_late_is_told_with_the_time_at_which_it_was_made_to_a_tick(writer):
    mark, table = f"test-{uuid.uuid4().hex[:12]}", ProcessTable()
    source = ProcessSource(mark, table, ExitWatcher(table), writer)
    before_ns = time.monotonic_ns()
    with subprocess.Popen(["sleep", "300"], env={**os.environ, "NVRX_CHAOS_RUN": mark}) as process:
        after_ns = time.monotonic_ns()
        source.watch_launcher(process.pid)
        time.sleep(0.05)
        source.step(0.0)
        process.kill()
    source.close()
    (seen,) = writer.of("process_appeared")
    assert before_ns <= seen["t_ns"] <= after_ns + TICK_NS


TICK_NS = 1_000_000_000 // TICKS_PER_S
TREE = """
import os, subprocess, sys
sleeper = [sys.executable, "-S", "-E", "-c", "import sys; sys.stdin.read(); sys.exit(3)"]
ranks = [subprocess.Popen(sleeper, env={**os.environ, "RANK": str(n)}, stdin=subprocess.PIPE) for n in (0, 1)]
print(*(rank.pid for rank in ranks), flush=True)
sys.stdin.readline()
ranks[0].kill()
ranks[0].wait()
ranks[1].stdin.close()
ranks[1].wait()
"""


def test_a_real_tree_is_seen_with_its_roles_and_how_each_ended(writer):
    mark, table = f"test-{uuid.uuid4().hex[:12]}", ProcessTable()
    source = ProcessSource(mark, table, ExitWatcher(table), writer)
    launcher = subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", TREE],
        env={**os.environ, "NVRX_CHAOS_RUN": mark},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with launcher:
        source.watch_launcher(launcher.pid)
        pids = [int(word) for word in launcher.stdout.readline().split()]
        look_until(source, lambda: len(writer.of("process_appeared")) == 3)
        launcher.stdin.write("go\n")
        launcher.stdin.flush()
        look_until(source, lambda: len(writer.of("process_exited")) == 3)
    source.close()
    roles = {seen["pid"]: (seen["role"], seen["header_rank"]) for seen in writer.of("process_appeared")}
    assert roles == {launcher.pid: ("launcher", None), pids[0]: ("rank", 0), pids[1]: ("rank", 1)}
    ends = {end["pid"]: (end["signal"], end["code"]) for end in writer.of("process_exited")}
    assert ends[launcher.pid] == (None, 0)
    major, minor = os.uname().release.replace("-", ".").split(".")[:2]
    if (int(major), int(minor)) >= (6, 15):  # older kernels tell it of our own children only
        assert ends[pids[0]] == (9, None) and ends[pids[1]] == (None, 3)


def look_until(source, claim):
    for _ in range(400):
        source.step(0.05)
        if claim():
            return
    raise AssertionError("it never came true")
