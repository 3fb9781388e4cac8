"""What the kernel tells of processes: none too short-lived to be known, each with its true maker and its end."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid

import pytest
from observer_build import MARK, life, told

from chaos.errors import Refused
from chaos.observer.known import born_between, start_ticks_at
from chaos.observer.process_source import ProcessSource
from chaos.observer.roles import SETTLES_S
from chaos.observer.telling import CONNECTOR_SAYS_S, LAUNCHER_SAYS_S
from chaos.system.connector import Connector
from chaos.system.exit_status import ExitWatcher
from chaos.system.processes import ProcessTable


@pytest.fixture
def rank():
    return life(11)


@pytest.fixture
def source(host, writer, news, now):
    """A launcher 10 with rank 0 as 11, both seen."""
    source = ProcessSource(MARK, host, host, writer, news)
    host.add(10, command="ft_launcher")
    source.watch_launcher(10)
    host.add(11, ppid=10, RANK="0")
    source.step()
    writer.events.clear()
    return source


def appeared(writer):
    return [(seen["pid"], seen["role"], seen["of_rank"]) for seen in writer.of("process_appeared")]


def ends(writer):
    return [(end["pid"], end["code"], end["signal"], end["source"]) for end in writer.of("process_exited")]


def test_a_writer_that_was_never_in_the_table_is_told_with_its_times_and_how_it_ended(source, news, writer, rank, now):
    began_ns = news.forked(11, 12)
    source.hear(told("checkpoint_began", rank, at_ns=began_ns - 1000))
    source.hear(told("checkpoint_staged", rank, at_ns=began_ns + 1000))
    ended_ns = news.ended(12, signal=9)
    source.step()
    assert appeared(writer) == [(12, "checkpoint_writer", 0)] and ends(writer) == [(12, None, 9, "connector")]
    seen, end = writer.events[0][1], writer.events[1][1]
    assert (seen["t_ns"], end["t_ns"]) == (began_ns, ended_ns) and seen["life"] == end["life"] == life(12).id


def test_a_program_that_a_rank_ran_between_two_looks_is_told_as_other_and_not_by_the_ranks_command(
    source, news, writer
):
    news.forked(11, 12)
    news.executed(12)
    news.ended(12, code=0)
    source.step()
    assert appeared(writer) == [(12, "other", 0)] and writer.events[0][1]["command"] == ""


def test_what_lost_its_mark_and_its_parents_is_the_jobs_by_its_descent(source, host, news, writer, now):
    """A daemon whose environment is gone: two forks, of which the first ends at once."""
    news.forked(11, 28)
    news.forked(28, 29)
    news.ended(28, code=0)
    host.add(29, ppid=1, mark=None, command="renamed", session=28)
    source.step()
    now.advance(SETTLES_S)
    source.step()
    assert appeared(writer) == [(29, "other", 0), (28, "other", 0)]
    assert [known.life.pid for known in source.alive()] == [10, 11, 29]


def test_the_in_process_monitor_is_known_by_its_descent(source, host, news, writer):
    news.forked(11, 28)
    news.forked(28, 29)
    news.ended(28, code=0)
    news.forked(29, 30)
    news.ended(29, code=0)
    host.add(30, ppid=1, session=29, RANK="0")
    source.step()
    assert (30, "in_process_monitor", 0) in appeared(writer)


def test_a_fork_that_the_table_showed_first_is_one_process(source, host, news, writer):
    host.add(12, ppid=11, RANK="0", name="pt_data_worker")
    source.step()
    news.forked(11, 12)
    source.step()
    assert appeared(writer) == [(12, "data_worker", 0)]


def test_processes_of_others_stay_theirs(source, news, writer):
    news.forked(500, 501)
    news.ended(501, code=0)
    source.step()
    assert writer.events == []


def test_the_end_of_another_process_of_that_pid_is_no_word_on_this_one(source, host, news, writer, now):
    host.end(11, code=0)
    source.step()
    now.advance(1.0)
    news.ended(11, signal=9)
    source.step()
    assert ends(writer) == [(11, 0, None, "pidfd")] and writer.of("source_blind") == []


def test_a_watched_process_whose_pidfd_tells_nothing_is_told_by_the_kernels_word(source, host, news, writer):
    host.end(11)
    source.step()
    assert ends(writer) == []
    news.ended(11, signal=9)
    source.step()
    assert ends(writer) == [(11, None, 9, "connector")]


def test_an_end_that_was_noticed_late_is_told_with_the_time_at_which_it_came(source, host, news, writer, now):
    host.end(11, signal=9)
    ended_ns = news.ended(11, signal=9)
    now.advance(0.3)  # a busy machine wakes us up when it can
    source.step()
    assert writer.of("process_exited")[0]["t_ns"] == ended_ns and ends(writer) == [(11, None, 9, "pidfd")]


def test_a_process_found_dead_at_once_has_not_ended_before_it_appeared(source, host, news, writer, now):
    """Its birth is known to a tick of 10 ms, its end to a microsecond."""
    ticks = start_ticks_at(now.ns)
    host.add(13, ppid=10, RANK="1", start_ticks=ticks)
    now.ns = born_between(life(13, ticks))[1] + 1
    source.step()
    news._tell("ended", born_between(life(13, ticks))[0] + 5, 13, signal=9)
    host.end(13, signal=9)
    source.step()
    seen, end = writer.of("process_appeared")[-1], writer.of("process_exited")[-1]
    assert seen["pid"] == end["pid"] == 13 and seen["t_ns"] <= end["t_ns"]


def test_where_the_kernel_told_more_than_was_read_a_missed_end_is_still_noticed_and_its_status_unknown(
    source, host, news, writer, now
):
    news.forked(11, 12)
    news.executed(12)
    news.lost()
    source.step()
    now.advance(CONNECTOR_SAYS_S)
    source.step()
    assert ends(writer) == [(12, None, None, "none")]


def test_a_kernel_that_stops_telling_leaves_what_is_seen_otherwise(source, host, news, writer, now):
    def broken():
        raise OSError(5, "broken")

    news.drain = broken
    host.add(12, ppid=10, RANK="1")
    host.end(11)
    source.step()
    assert news.closed and appeared(writer) == [(12, "rank", None)]
    now.advance(LAUNCHER_SAYS_S)
    source.step()
    assert ends(writer) == [(11, None, None, "none")]


def test_the_news_are_closed_with_the_source(source, news):
    source.close()
    assert news.closed


FORKS = """
import os, sys
for code in (0, 3):
    if os.fork() == 0:
        os._exit(code)
    os.wait()
sys.stdin.readline()
"""


def test_real_processes_that_live_for_a_moment_are_all_told(writer):
    try:
        connector = Connector()
    except Refused as refused:
        pytest.skip(refused.message)
    mark, table = f"test-{uuid.uuid4().hex[:12]}", ProcessTable()
    source = ProcessSource(mark, table, ExitWatcher(table), writer, connector)
    command = [sys.executable, "-S", "-E", "-c", FORKS]
    with subprocess.Popen(command, env={**os.environ, "NVRX_CHAOS_RUN": mark}, stdin=subprocess.PIPE) as launcher:
        source.watch_launcher(launcher.pid)
        source.step(0.0)
        launcher.stdin.close()
        for _ in range(200):
            source.step(0.05)
            if len(writer.of("process_exited")) == 3:
                break
    source.close()
    codes = {(end["role"], end["code"]) for end in writer.of("process_exited")}
    assert codes == {("launcher", 0), ("other", 0), ("other", 3)}
