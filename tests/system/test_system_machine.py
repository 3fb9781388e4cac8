from __future__ import annotations

import pytest
from system_jobs import fake_life

from chaos.system.machine import Machine
from chaos.system.proc import TICKS_PER_S
from chaos.system.processes import this_life


class FakeProc:
    def __init__(self, root) -> None:
        self.root = root
        self.cpu(busy_s=0)

    def cpu(self, *, busy_s: float, steal_s: float = 0) -> None:
        ticks = [int(value * TICKS_PER_S) for value in (busy_s, 0, 0, 999, 0, 0, 0, steal_s, 0, 0)]
        (self.root / "stat").write_text(f"cpu {' '.join(map(str, ticks))}\ncpu0 1 2 3\n")

    def process(self, pid: int, *, cpu_s: float, children_s: float = 0, start: int = 500) -> None:
        numbers = [0] * 50
        numbers[14 - 3], numbers[16 - 3] = int(cpu_s * TICKS_PER_S), int(children_s * TICKS_PER_S)
        numbers[22 - 3] = start
        folder = self.root / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "stat").write_text(f"{pid} (job) S {' '.join(map(str, numbers[1:]))}")

    def gone(self, pid: int) -> None:
        (self.root / str(pid) / "stat").unlink()


@pytest.fixture
def fake(tmp_path):
    return FakeProc(tmp_path)


def test_cpu_of_our_own_processes_is_not_foreign(fake):
    machine = Machine(fake.root)
    fake.process(7, cpu_s=10)
    assert machine.foreign_cpu_s([7]) == 0
    fake.process(7, cpu_s=12)
    fake.cpu(busy_s=5)
    assert machine.foreign_cpu_s([7]) == pytest.approx(3)
    fake.cpu(busy_s=5)
    assert machine.foreign_cpu_s([7]) == pytest.approx(3)


def test_a_rank_that_ends_does_not_make_its_whole_life_foreign(fake):
    """Its parent, ours too, gets all its time in one step: it was counted while it lived."""
    machine = Machine(fake.root)
    fake.process(7, cpu_s=0)
    fake.process(8, cpu_s=100)
    machine.foreign_cpu_s([7, 8])
    fake.gone(8)
    fake.process(7, cpu_s=0, children_s=101)
    fake.cpu(busy_s=1.5)
    assert machine.foreign_cpu_s([7]) == pytest.approx(0.5)


def test_a_rank_reaped_by_somebody_else_does_not_become_foreign_either(fake):
    machine = Machine(fake.root)
    fake.process(7, cpu_s=0)
    fake.process(8, cpu_s=100)
    machine.foreign_cpu_s([7, 8])
    fake.gone(8)
    fake.cpu(busy_s=0.25)
    assert machine.foreign_cpu_s([7]) == pytest.approx(0.25)


def test_one_of_ours_that_lost_its_mark_as_a_zombie_is_still_ours(fake):
    machine = Machine(fake.root)
    fake.process(8, cpu_s=1)
    machine.foreign_cpu_s([8])
    fake.process(8, cpu_s=2)
    fake.cpu(busy_s=1)
    assert machine.foreign_cpu_s([]) == 0


def test_a_stranger_with_a_pid_once_ours_is_foreign(fake):
    machine = Machine(fake.root)
    fake.process(8, cpu_s=1)
    machine.foreign_cpu_s([8])
    fake.process(8, cpu_s=3, start=900)
    fake.cpu(busy_s=3)
    assert machine.foreign_cpu_s([]) == pytest.approx(3)


def test_steal_is_read_in_seconds(fake):
    fake.cpu(busy_s=1, steal_s=2.5)
    assert Machine(fake.root).steal_s() == pytest.approx(2.5)


def test_what_cannot_be_read_is_none_and_not_zero(tmp_path):
    machine = Machine(tmp_path)
    assert (machine.steal_s(), machine.foreign_cpu_s([1]), machine.run_delay_s(fake_life(1))) == (None, None, None)


def test_run_delay_is_the_second_figure_of_every_thread_of_that_very_life(fake):
    fake.process(7, cpu_s=1)
    for thread, delay_s in ((7, 1.5), (8, 0.75), (9, 0.25)):
        (fake.root / "7" / "task" / str(thread)).mkdir(parents=True)
        (fake.root / "7" / "task" / str(thread) / "schedstat").write_text(f"111 {int(delay_s * 1e9)} 3\n")
    (fake.root / "7" / "task" / "10").mkdir()  # it ended between the two looks
    assert Machine(fake.root).run_delay_s(fake_life(7)) == 2.5
    assert Machine(fake.root).run_delay_s(fake_life(7, start_ticks=501)) is None


def test_this_host_tells_all_three():
    machine = Machine()
    assert machine.steal_s() is not None
    assert machine.foreign_cpu_s([]) == 0
    assert machine.run_delay_s(this_life()) is not None
