"""What the kernel shows of a process's threads, and of its signals."""

from __future__ import annotations

import signal
import subprocess

import pytest
from system_jobs import PYTHON, sleeper, wait_until

from chaos.system.threads import UNREAD, catches, threads_of

THREADS = "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start(); print(flush=True)"
CATCHES = "import signal; signal.signal(signal.SIGRTMIN + 17, lambda *_: None); print(flush=True)"
SLEEPS = "; import time; time.sleep(300)"


def started(code):
    """A process that has done `code` and sleeps."""
    return sleeper(command=[*PYTHON, "-c", code + SLEEPS], stdout=subprocess.PIPE)


def test_every_thread_is_shown_main_thread_first_with_its_state_and_times():
    with started(THREADS) as process:
        process.stdout.readline()
        wait_until(lambda: {each.state for each in threads_of(process.pid)} == {"S"}, 5, "both threads sleep")
        threads = threads_of(process.pid)
    assert [each.tid == process.pid for each in threads] == [True, False]
    assert threads[0].name.startswith("python")
    assert all(each.waits_in != UNREAD for each in threads)
    assert threads[0].ran_s > 0 and threads[0].delayed_s >= 0


def test_a_process_that_is_gone_is_an_error(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        threads_of(1, tmp_path)


def test_what_cannot_be_read_of_a_thread_is_not_zero(tmp_path):
    folder = tmp_path / "7" / "task" / "7"
    folder.mkdir(parents=True)
    fields = ["S", "1", *["0"] * 15, "1", "0", "500", *["0"] * 30]
    (folder / "stat").write_text("7 (python) " + " ".join(fields))
    (thread,) = threads_of(7, tmp_path)
    assert (thread.state, thread.waits_in, thread.ran_s, thread.delayed_s) == ("S", UNREAD, None, None)


def test_a_signal_counts_as_caught_only_where_the_process_has_a_handler_for_it():
    with started(CATCHES) as process:
        process.stdout.readline()
        caught = {number for number in range(signal.SIGRTMIN, signal.SIGRTMAX) if catches(process.pid, number)}
    assert caught == {signal.SIGRTMIN + 17}
    assert not catches(process.pid, signal.SIGRTMIN + 17)  # it is gone
