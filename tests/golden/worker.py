"""A rank of a golden run: as little of a job as the layers of NVRx need. Started by `record.py`, never by a test.

`in_job` sends heartbeats to its rank monitor until it was restarted; `in_process` raises once under the wrapper.
"""

from __future__ import annotations

import datetime
import logging
import os
import sys
import time
from pathlib import Path

STEP_S = 0.05
FIRST_LIFE_S = 60.0  # ended long before by the fault
AFTER_S = 1.0


def _wait(seconds: float) -> None:
    """In short spells: a restart interrupts between two of them."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        time.sleep(STEP_S)


def in_job(notes: Path) -> None:
    from nvidia_resiliency_ext.fault_tolerance import RankMonitorClient

    restarted = os.environ["TORCHELASTIC_RESTART_COUNT"] != "0"
    client = RankMonitorClient()
    client.init_workload_monitoring()
    client.send_heartbeat()
    (notes / f"pid-{os.environ['TORCHELASTIC_RESTART_COUNT']}-{os.environ['RANK']}").write_text(str(os.getpid()))
    end_s = time.monotonic() + (AFTER_S if restarted else FIRST_LIFE_S)
    while time.monotonic() < end_s:
        time.sleep(STEP_S)
        client.send_heartbeat()
    client.shutdown_workload_monitoring()


def in_process() -> None:
    # The form of the reference trainer's own log: 0.4.1 speaks through the program's handlers.
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s rank{os.environ['RANK']} %(levelname)s %(message)s")
    from nvidia_resiliency_ext import inprocess

    entries = 0

    def entered() -> None:
        nonlocal entries
        entries += 1
        _wait(AFTER_S)
        if entries == 1:
            if os.environ["RANK"] == "1":
                raise RuntimeError("boom")
            _wait(FIRST_LIFE_S)

    quick = datetime.timedelta(milliseconds=250)
    inprocess.Wrapper(
        initialize=inprocess.initialize.RetryController(max_iterations=3, min_world_size=2),
        monitor_thread_interval=quick,
        monitor_process_interval=quick,
        heartbeat_interval=quick,
        progress_watchdog_interval=quick,
        last_call_wait=quick,
    )(entered)()


if __name__ == "__main__":
    in_process() if sys.argv[1] == "in_process" else in_job(Path(sys.argv[2]))
