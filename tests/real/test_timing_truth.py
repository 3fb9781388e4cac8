"""Times of each source against the truth: what is done to a process at a moment that we know, and when the source says
it was. The logs' truth is in tests/golden, noted by the recording itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from chaos.errors import Refused
from chaos.history.writer import Writer
from chaos.observer.process_source import ProcessSource
from chaos.system.connector import Connector
from chaos.system.exit_status import ExitWatcher
from chaos.system.processes import ProcessTable

pytestmark = pytest.mark.real

AGENT_S, TABLE_S = 0.005, 0.020
CALLS, ENDS = 300, 20
TRIES = 3  # what a busy machine delays once, it does not delay every time
MARK = "timing-truth"

CALLER = """
import json, sys, time
import chaos.agent as agent
agent.entered(rank=0, initial_rank=0, local_rank=0, world_size=1, settings={}, reported_restart={})
truth = []
for step in range(int(sys.argv[1])):
    before = time.monotonic_ns()
    agent.step_done(step, loss=1.0, lr=0.1, grad_norm=1.0, samples=(step, step + 1))
    after = time.monotonic_ns()
    truth.append((step, before, after))
    time.sleep(0.002)
print(json.dumps(truth))
"""


def test_the_agent_tells_when_it_was_and_not_when_it_was_written(tmp_path):
    (tmp_path / "history").mkdir()
    environment = {**os.environ, "NVRX_CHAOS_DIR": str(tmp_path), "NVRX_CHAOS_RUN": MARK}
    environment.pop("NVRX_CHAOS_SOCKET", None)
    ran = subprocess.run(
        [sys.executable, "-c", CALLER, str(CALLS)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    truth = {step: (before, after) for step, before, after in json.loads(ran.stdout)}
    told = {
        event["step"]: event["t_ns"]
        for path in (tmp_path / "history").glob("rank-*.jsonl")
        for event in map(json.loads, path.read_text().splitlines())
        if event["kind"] == "step_done"
    }
    assert told.keys() == truth.keys()
    assert all(truth[step][0] <= t_ns <= truth[step][1] for step, t_ns in told.items())
    # a caller that lost its CPU between the two has no truth to offer
    known = [step for step, (before, after) in truth.items() if after - before <= AGENT_S * 1e9]
    assert len(known) > CALLS / 2
    assert max(told[step] - truth[step][0] for step in known) <= AGENT_S * 1e9


@pytest.fixture(params=["told by the kernel", "pidfds alone"])
def watched(request, tmp_path):
    """A process table that is watched as in a run, with and without the kernel's own word on every end."""
    news = None
    if request.param == "told by the kernel":
        try:
            news = Connector()
        except Refused as error:
            pytest.skip(f"this host's process connector is not for us: {error}")
    table = ProcessTable()
    source = ProcessSource(MARK, table, ExitWatcher(table), Writer(str(tmp_path), "controller"), news)
    stopping = threading.Event()

    def watch():
        while not stopping.is_set():
            source.step(0.05)

    thread = threading.Thread(target=watch)
    thread.start()
    yield source, tmp_path, thread
    stopping.set()
    thread.join()
    source.step(0.0)
    source.close()


def ended(folder: Path) -> dict[int, int]:
    """pid -> when its end is told to have been."""
    lines = [json.loads(line) for path in folder.glob("controller-*.jsonl") for line in path.read_text().splitlines()]
    return {line["pid"]: line["t_ns"] for line in lines if line["kind"] == "process_exited"}


def kill_and_compare(source: ProcessSource, folder: Path) -> list[float]:
    """How long after its killing each process is told to have ended, in seconds."""
    late = []
    for _ in range(ENDS):
        child = subprocess.Popen(["sleep", "600"], env={**os.environ, "NVRX_CHAOS_RUN": MARK})
        source.watch_launcher(child.pid)  # its role is clear from the first look on, so its end is told at once
        try:
            deadline = time.monotonic() + 20
            while child.pid not in {known.life.pid for known in source.alive()} and time.monotonic() < deadline:
                time.sleep(0.005)
            truth_ns = time.monotonic_ns()
            child.send_signal(signal.SIGKILL)
        finally:
            child.kill()
            child.wait()
        while child.pid not in ended(folder) and time.monotonic() < deadline:
            time.sleep(0.005)
        late.append((ended(folder)[child.pid] - truth_ns) / 1e9)
    return late


def test_the_process_table_tells_an_end_when_it_was(watched):
    source, folder, thread = watched
    for _ in range(TRIES):
        before_s = waited_for_a_cpu_s(thread)
        late = kill_and_compare(source, folder)
        withheld_s = waited_for_a_cpu_s(thread) - before_s
        assert min(late) >= 0, "told before it was"
        if max(late) <= TABLE_S + withheld_s / ENDS:
            return
    pytest.fail(f"an end was told {max(late) * 1e3:.1f} ms after it was, in {TRIES} tries")


def waited_for_a_cpu_s(thread: threading.Thread) -> float:
    """How long the watching thread was ready to run and was not let: the machine's part of its being late."""
    return int(Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()[1]) / 1e9
