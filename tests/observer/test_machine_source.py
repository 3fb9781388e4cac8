"""What the machine withheld: a sample when one is due; one that cannot be read is left out."""

from __future__ import annotations

import pytest
from observer_build import FakeWriter, life

from chaos.observer.machine_source import SAMPLE_S, MachineSource


class Machine:
    """Figures given by the test."""

    def __init__(self, steal=1.0, foreign=2.0, delays=None):
        self.steal, self.foreign, self.delays, self.ours = steal, foreign, delays or {}, None

    def steal_s(self):
        return self.steal

    def foreign_cpu_s(self, ours):
        self.ours = list(ours)
        return self.foreign

    def run_delay_s(self, who):
        return self.delays.get(who.pid)


@pytest.fixture
def writer():
    return FakeWriter()


def test_a_sample_says_steal_foreign_cpu_and_the_delay_of_each_rank(writer):
    machine = Machine(1.23456, 2.5, {11: 0.1, 12: 0.25})
    MachineSource(machine, writer).step([life(11), life(12)], [10, 11, 12, 99])
    ((kind, sample),) = writer.events
    assert kind == "machine_measured" and sample["life"] is None
    assert (sample["steal_s"], sample["foreign_cpu_s"]) == (1.2346, 2.5)
    assert sample["run_delay_s"] == {life(11).id: 0.1, life(12).id: 0.25} and machine.ours == [10, 11, 12, 99]


@pytest.mark.parametrize("machine", [Machine(steal=None), Machine(foreign=None)])
def test_an_unread_sample_is_left_out(writer, machine):
    MachineSource(machine, writer).step([life(11)], [])
    assert writer.events == []


def test_a_rank_whose_delay_cannot_be_read_is_left_out_and_not_called_zero(writer):
    MachineSource(Machine(delays={11: 0.5}), writer).step([life(11), life(12)], [])
    assert writer.events[0][1]["run_delay_s"] == {life(11).id: 0.5}


def test_samples_come_no_more_often_than_agreed(writer, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    source = MachineSource(Machine(), writer)
    for _ in range(11):
        source.step([], [])
        now[0] += SAMPLE_S / 4
    assert len(writer.events) == 3
