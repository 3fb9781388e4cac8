"""A stand-in for NVRx that speaks as the real one does, and Python processes of a job that load us at their start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import chaos
from chaos.jobs.shipped import start_folder

ROOT = Path(chaos.__file__).parent.parent
LAUNCHER = ("-m", "nvidia_resiliency_ext.fault_tolerance.launcher")
FAILED = "failed (exitcode: -9) local_rank: 1 (pid: 77) of binary: python"
HUNG = "Did not get subsequent heartbeat. Waited 3.00 seconds."

MODULES = {
    "fault_tolerance/launcher.py": """
import logging, os
from nvidia_resiliency_ext.fault_tolerance.rank_monitor_server import watch
logging.basicConfig(level=os.environ.get("LEVEL", "INFO"), format="%(name)s %(filename)s:%(lineno)d %(message)s")
logger = logging.getLogger(__name__)

def main():
    logger.info("The node 'a' has joined round 0 of the rendezvous 'r' as rank 0 in a world of size 1.")
    watch(os.environ.get("RANKS", "").split())
    logger.error("%s", os.environ["SAYS"])

if __name__ == "__main__":
    main()
""",
    "fault_tolerance/rank_monitor_server.py": """
import json, logging, os, sys

class RankMonitorLogger(logging.Logger):
    def __init__(self, name="RankMonServer", level=logging.INFO):
        super().__init__(name, level)
        shown = logging.StreamHandler(sys.stderr)
        shown.setLevel(level)
        self.addHandler(shown)
        self.propagate = False
        self.rank = None

def watch(ranks):
    for rank in ranks:
        child = os.fork()
        if child == 0:
            logger = RankMonitorLogger(level=os.environ.get("MONITOR_LEVEL", "INFO"))
            logger.rank = rank
            if rank != "quiet":
                logger.warning(os.environ["HUNG"])
            held = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                    if os.path.islink(f"/proc/self/fd/{fd}")]
            print(json.dumps([held, os.getpid()]), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
""",
    "inprocess/wrap.py": """
import logging
log = logging.getLogger(__name__)
def say(text): log.error(text)
""",
    "inprocess/monitor_process.py": """
import logging
log = logging.getLogger(__name__)
def say(text): log.info(text)
""",
}


def stand_in(folder, **changed):
    """Writes the stand-in below `folder`; `changed` replaces modules by their stem."""
    package = folder / "nvidia_resiliency_ext"
    for name, text in MODULES.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(changed.get(path.stem, text))
    (package / "__init__.py").touch()
    return folder


def run_python(run_dir, *words, path=(), with_us=True, executable=sys.executable, **environment):
    """A Python process of a job: our start folder first on its path, then `path`, then our package."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("NVRX_CHAOS_", "PYTHON", "RANK"))}
    folders = [*([start_folder()] if with_us else []), *path, ROOT]
    env |= {"PYTHONPATH": os.pathsep.join(map(str, folders)), "SAYS": FAILED, "HUNG": HUNG}
    if run_dir is not None:
        env["NVRX_CHAOS_DIR"] = str(run_dir)
    command = [executable, *words]  # at the root: what lies where the tests are run must not be found by it
    return subprocess.run(
        command, cwd="/", env=env | environment, capture_output=True, text=True, timeout=60, check=False
    )


def files_of(run_dir):
    """Name of each history file -> its events."""
    return {
        path.name: [json.loads(line) for line in path.read_bytes().splitlines()]
        for path in sorted((run_dir / "history").iterdir())
    }


def the_file(run_dir, role):
    """The events of the one file of that role."""
    (found,) = [events for name, events in files_of(run_dir).items() if name.startswith(f"{role}-")]
    return found
