"""Memory of ranks and job: a sample when one is due; what cannot be read is null and never zero."""

from __future__ import annotations

import pytest
from observer_build import FakeWriter, Now, life

from chaos.observer.machine_source import SAMPLE_S
from chaos.observer.memory_source import MemorySource


class Memory:
    """Figures given by the test."""

    def __init__(self, rss=None, cgroup=(None, None), kills=None):
        self.rss, self.of, self.kills = rss or {}, cgroup, kills

    def rss_bytes(self, who):
        return self.rss.get(who.pid)

    def oom_kills(self):
        return self.kills

    def cgroup(self, who):
        return self.of if who.pid == 10 else (0, 0)


@pytest.fixture
def writer():
    return FakeWriter()


def sample(writer):
    ((kind, fields),) = writer.events
    assert kind == "memory_measured" and fields["life"] is None
    return fields


def test_a_sample_says_the_memory_of_each_rank_of_the_launchers_cgroup_and_the_kills(writer):
    MemorySource(Memory({11: 4096, 12: 8192}, (1 << 30, 2), 7), writer).step([life(11), life(12)], life(10))
    found = sample(writer)
    assert found["rss_bytes"] == {life(11).id: 4096, life(12).id: 8192}
    assert (found["cgroup_bytes"], found["cgroup_oom_kills"], found["oom_kills"]) == (1 << 30, 2, 7)


def test_what_cannot_be_read_is_null(writer):
    MemorySource(Memory(), writer).step([life(11)], life(10))
    found = sample(writer)
    assert found["rss_bytes"] == {life(11).id: None}
    assert (found["cgroup_bytes"], found["cgroup_oom_kills"], found["oom_kills"]) == (None, None, None)


def test_before_the_job_starts_nothing_is_measured(writer):
    MemorySource(Memory(kills=7), writer).step([], None)
    assert writer.events == []


def test_samples_come_no_more_often_than_the_machines(writer, monkeypatch):
    now = Now(monkeypatch)
    source = MemorySource(Memory(), writer)
    for _ in range(11):
        source.step([], life(10))
        now.advance(SAMPLE_S / 4)
    assert len(writer.events) == 3
