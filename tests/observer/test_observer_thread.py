"""The observer's thread: it watches until told to stop, looks once more, and says so when it goes blind."""

from __future__ import annotations

import threading

import pytest
from observer_build import MARK, FakeHost, FakeWriter

from chaos.observer.observer import Observer


class Machine:
    def steal_s(self):
        return None

    def foreign_cpu_s(self, ours):
        return None

    def run_delay_s(self, who):
        return None

    def rss_bytes(self, who):
        return None

    def oom_kills(self):
        return None

    def cgroup(self, who):
        return None, None


class Host(FakeHost):
    """Lets the test wait for a look."""

    def __init__(self):
        super().__init__()
        self.looked, self.fails = threading.Event(), None

    def poll(self, timeout_s=0.0):
        if self.fails is not None:
            raise self.fails
        threading.Event().wait(min(timeout_s, 0.005))
        return super().poll(0.0)

    def pids(self):
        self.looked.set()
        return super().pids()

    def wait_for_a_look(self):
        for _ in range(2):  # the first may have begun before the change
            self.looked.clear()
            assert self.looked.wait(10)


@pytest.fixture
def host():
    return Host()


@pytest.fixture
def writer():
    return FakeWriter()


@pytest.fixture
def observer(host, writer, tmp_path):
    return Observer(
        mark=MARK,
        log_path=tmp_path / "job.log",
        log_name="logs/job.log",
        writer=writer,
        reader=host,
        exits=host,
        machine=Machine(),
        memory=Machine(),
        helpers=lambda: [1],
    )


def test_ranks_that_live_are_told_with_their_number(observer, host):
    host.add(10)
    observer.processes.watch_launcher(10)
    who = host.add(11, ppid=10, RANK="1")
    observer.start()
    host.wait_for_a_look()
    host.wait_for_a_look()
    assert observer.rank_lives() == {who.id: (who, 1)}
    observer.stop()
    assert host.closed and observer.failure is None


def test_what_ended_just_before_the_stop_is_still_told(observer, host, writer, tmp_path):
    host.add(10)
    observer.processes.watch_launcher(10)
    observer.start()
    host.wait_for_a_look()
    (tmp_path / "job.log").write_text(
        "[2026-12-01 12:00:00,123] [ERROR] [ft_launcher1@h] failed (exitcode: -9) local_rank: 1 (pid: 7) of binary: x\n"
    )
    host.end(10, code=0)
    observer.stop()
    assert len(writer.of("process_exited")) == 1 and len(writer.of("worker_failed")) == 1


def test_a_source_that_fails_says_that_it_is_blind_and_keeps_the_reason(observer, host, writer, tmp_path):
    (tmp_path / "job.log").touch()
    observer.start()
    host.wait_for_a_look()
    host.fails = RuntimeError("the table broke")
    observer._thread.join(10)
    observer.stop()
    (blind,) = writer.of("source_blind")
    assert blind["source"] == "controller" and "the table broke" in blind["reason"]
    assert str(observer.failure) == "the table broke"
