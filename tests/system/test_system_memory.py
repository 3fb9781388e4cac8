"""Memory figures: version 1 and 2 of cgroups, OOM kills, resident memory; what cannot be read is None."""

from __future__ import annotations

import os

import pytest
from system_jobs import fake_life

from chaos.system.cgroups import MemoryCgroup, memory_cgroup, of_its_own
from chaos.system.memory import Memory
from chaos.system.proc import PAGE_BYTES
from chaos.system.processes import this_life

V1 = "33 31 0:31 {root} {at} rw,relatime - cgroup cgroup rw,memory\n"
V2 = "40 31 0:40 {root} {at} rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n"
NOISE = "22 1 0:20 / /proc rw - proc proc rw\n32 31 0:30 / /sys/cpu rw - cgroup cgroup rw,cpu\n"


class Host:
    """A /proc with the cgroups of some processes."""

    def __init__(self, root):
        self.root, self.tree = root, root / "cgroups"
        self.tree.mkdir()

    def mounted(self, line, *, at=None, shows="/"):
        (self.root / "self").mkdir(exist_ok=True)
        (self.root / "self" / "mountinfo").write_text(NOISE + line.format(root=shows, at=at or self.tree))

    def process(self, pid, text):
        (self.root / str(pid)).mkdir(exist_ok=True)
        (self.root / str(pid) / "cgroup").write_text(text)

    def folder(self, name, **files):
        folder = self.tree / name
        folder.mkdir(parents=True)
        for file, text in files.items():
            (folder / file.replace("__", ".")).write_text(text)
        return folder


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def test_version_1_tells_bytes_and_kills(host):
    host.mounted(V1)
    host.process(7, "9:name=systemd:/\n4:memory,other:/job\n0::/\n")
    folder = host.folder(
        "job", memory__usage_in_bytes="123\n", memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"
    )
    found = memory_cgroup(7, host.root)
    assert found == MemoryCgroup("v1", folder) and (found.bytes(), found.oom_kills()) == (123, 2)


def test_version_2_tells_bytes_and_kills(host):
    host.mounted(V2)
    host.process(7, "0::/job\n")
    folder = host.folder("job", memory__current="456\n", memory__events="low 0\noom 3\noom_kill 1\noom_group_kill 0\n")
    found = memory_cgroup(7, host.root)
    assert found == MemoryCgroup("v2", folder) and (found.bytes(), found.oom_kills()) == (456, 1)


def test_a_container_that_is_shown_its_own_part_only_finds_its_folder(host):
    host.mounted(V2, shows="/pods/a")
    host.process(7, "0::/pods/a/job\n")
    assert memory_cgroup(7, host.root).folder == host.tree / "job"
    host.process(8, "0::/pods/b\n")
    assert memory_cgroup(8, host.root) is None


@pytest.mark.parametrize("text", ["", "nonsense\n", "4:cpu:/job\n"])
def test_without_a_memory_cgroup_there_is_none(host, text):
    host.mounted(V1)
    host.process(7, text)
    assert memory_cgroup(7, host.root) is None and memory_cgroup(8, host.root) is None


def test_a_cgroup_that_is_ours_too_is_not_the_jobs_own(host):
    host.mounted(V1)
    host.process("self", "4:memory:/us\n")
    host.process(7, "4:memory:/us\n")
    host.process(8, "4:memory:/job\n")
    host.folder("job", memory__usage_in_bytes="5\n")
    assert of_its_own(7, host.root) is None
    assert Memory(host.root).cgroup(fake_life(7)) == (None, None)
    assert Memory(host.root).cgroup(fake_life(8)) == (5, None)


def test_kills_of_the_host_are_read_from_vmstat(tmp_path):
    (tmp_path / "vmstat").write_text("nr_free_pages 5\noom_kill 4\noom_kill_other 9\n")
    assert Memory(tmp_path).oom_kills() == 4
    (tmp_path / "vmstat").write_text("nr_free_pages 5\n")
    assert Memory(tmp_path).oom_kills() is None


def test_without_proc_nothing_is_zero(tmp_path):
    memory = Memory(tmp_path / "none")
    assert (memory.oom_kills(), memory.rss_bytes(fake_life(7)), memory.cgroup(fake_life(7))) == (
        None, None, (None, None),
    )  # fmt: skip


def test_resident_memory_is_of_that_very_life(tmp_path):
    numbers = [0] * 50
    numbers[22 - 3], numbers[24 - 3] = 500, 3
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (a b) S {' '.join(map(str, numbers[1:]))}")
    assert Memory(tmp_path).rss_bytes(fake_life(7)) == 3 * PAGE_BYTES
    assert Memory(tmp_path).rss_bytes(fake_life(7, start_ticks=501)) is None


def test_this_host_tells_its_own():
    memory, we = Memory(), this_life()
    assert memory.oom_kills() is not None and memory.rss_bytes(we) > 1 << 20
    assert memory.cgroup(we) == (None, None) and of_its_own(os.getpid()) is None
