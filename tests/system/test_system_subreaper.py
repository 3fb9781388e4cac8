from __future__ import annotations

import subprocess
import sys
import textwrap


def run(script: str) -> str:
    """In a process of its own: the setting cannot be seen from outside and stays for life."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=30, check=True
    ).stdout


ORPHAN = """
    import os, select, subprocess
    from chaos.system.processes import ProcessTable
    from chaos.system.subreaper import become_subreaper, reap_orphans
    become_subreaper()
    table = ProcessTable()
    shell = subprocess.run(["sh", "-c", "sleep 300 >/dev/null & echo $!"], stdout=subprocess.PIPE, text=True)
    orphan = table.life(int(shell.stdout))
"""


def test_an_orphan_of_a_descendant_comes_to_us_and_is_reaped_once():
    said = run(
        ORPHAN
        + """
    print(table.info(orphan.pid).ppid == os.getpid())
    handle = os.pidfd_open(orphan.pid)
    print(reap_orphans([orphan]))
    os.kill(orphan.pid, 9)
    select.select([handle], [], [], 10)
    print(reap_orphans([orphan]) == [orphan], reap_orphans([orphan]), table.info(orphan.pid))
    """
    )
    assert said.splitlines() == ["True", "[]", "True [] None"]


def test_a_child_that_somebody_else_waits_for_is_left_to_him():
    said = run(
        ORPHAN
        + """
    child = subprocess.Popen(["sh", "-c", "exit 7"])
    select.select([os.pidfd_open(child.pid)], [], [], 10)
    os.kill(orphan.pid, 9)
    select.select([os.pidfd_open(orphan.pid)], [], [], 10)
    reap_orphans([orphan])
    print(child.wait())
    """
    )
    assert said.splitlines() == ["7"]
