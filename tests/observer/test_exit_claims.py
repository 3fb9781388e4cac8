"""How a process ended, by several sources: the most trusted is told, and two that disagree are told as that."""

from __future__ import annotations

import msgspec
import pytest
from observer_build import MARK, life, told

from chaos.observer.process_source import ProcessSource
from chaos.observer.telling import CONNECTOR_SAYS_S, LAUNCHER_SAYS_S


@pytest.fixture
def source(host, writer, news, now):
    source = ProcessSource(MARK, host, host, writer, news)
    host.add(10, command="ft_launcher")
    source.watch_launcher(10)
    host.add(11, ppid=10, RANK="1")
    source.step()
    writer.events.clear()
    return source


def end(writer):
    (end,) = writer.of("process_exited")
    return end["code"], end["signal"], end["source"]


@pytest.mark.parametrize("source_name", ["child", "pidfd"])
def test_our_own_child_and_the_pidfd_come_before_all_others(source, host, news, writer, source_name):
    news.ended(11, signal=9)
    source.hear(told("worker_failed", pid=11, code=-9))
    host.end(11, signal=9, source=source_name)
    source.step()
    assert end(writer) == (None, 9, source_name) and writer.of("source_blind") == []


@pytest.mark.parametrize(("code", "expected"), [(-9, (None, 9)), (3, (3, None)), (0, (0, None))])
def test_the_launchers_record_is_used_where_the_kernel_tells_nothing(source, host, writer, now, code, expected):
    host.end(11)
    ended_ns = now.ns
    source.step()
    now.advance(1.5)
    source.hear(told("worker_failed", pid=11, code=code))
    source.step()
    assert end(writer) == (*expected, "launcher") and writer.of("process_exited")[0]["t_ns"] == ended_ns


def test_without_any_word_the_status_is_unknown_and_told_after_a_while(source, host, writer, now):
    host.end(11)
    source.step()
    now.advance(LAUNCHER_SAYS_S)
    source.step()
    assert end(writer) == (None, None, "none") and writer.of("source_blind") == []


def test_nobody_waits_for_a_launchers_word_on_what_is_no_rank(source, host, writer, now):
    host.end(10)
    source.step()
    now.advance(CONNECTOR_SAYS_S)
    source.step()
    assert end(writer) == (None, None, "none")


def test_two_sources_that_disagree_leave_the_status_unknown_and_name_the_process(source, host, news, writer):
    news.ended(11, code=0)
    host.end(11, signal=9)
    source.step()
    (blind,) = writer.of("source_blind")
    assert end(writer) == (None, None, "none")
    assert blind["source"] == "exit_status" and blind["life"] == life(11).id
    assert "pid 11 (rank)" in blind["reason"]
    assert "pidfd says signal SIGKILL" in blind["reason"] and "connector says code 0" in blind["reason"]


def test_a_dispute_that_is_known_when_the_end_is_told_leaves_no_status_in_it(source, host, writer):
    source.hear(told("worker_failed", pid=11, code=1))
    source.step()
    host.end(11, signal=9)
    source.step()
    assert end(writer) == (None, None, "none") and len(writer.of("source_blind")) == 1


def test_a_word_that_comes_later_against_what_was_told_is_said_once(source, host, writer):
    host.end(11, signal=9)
    source.step()
    assert end(writer) == (None, 9, "pidfd")
    source.hear(told("worker_failed", pid=11, code=1))
    source.hear(told("worker_failed", pid=11, code=1))
    source.step()
    source.step()
    (blind,) = writer.of("source_blind")
    assert "launcher says code 1" in blind["reason"]


def test_the_launchers_word_on_another_process_of_that_pid_is_not_held_against_this_one(source, host, writer):
    source.hear(told("worker_failed", pid=11, code=1, at_ns=0))
    host.end(11, signal=9)
    source.step()
    assert end(writer) == (None, 9, "pidfd") and writer.of("source_blind") == []


def test_the_launchers_number_in_a_pid_namespace_of_its_own_is_not_taken_for_ours(source, host, writer):
    row = host.rows[11]
    inside = msgspec.structs.replace(row.life, pid=12, pid_inside=3, start_ticks=120)
    host.rows[12] = msgspec.structs.replace(row, life=inside)
    source.step()
    source.hear(told("worker_failed", pid=12, code=1))  # another process of that namespace
    host.end(12, signal=9)
    source.step()
    assert end(writer) == (None, 9, "pidfd") and writer.of("source_blind") == []


@pytest.mark.parametrize("data", [{}, {"pid": "11", "code": 1}, {"pid": 11, "code": None}, {"pid": 99, "code": 1}])
def test_a_record_that_names_no_process_or_no_code_says_nothing(source, host, writer, data):
    source.hear(told("worker_failed", **data))
    host.end(11, code=0)
    source.step()
    assert end(writer) == (0, None, "pidfd") and writer.of("source_blind") == []
