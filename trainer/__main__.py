"""`python -m trainer`: checks the settings, then becomes NVRx's launcher, which starts `trainer.train` for each rank.

Becomes, not starts: whoever holds this process's pid holds the launcher. Imports no torch, so that wrong
settings are answered at once.
"""

from __future__ import annotations

import os
import sys

from trainer import config, corpus
from trainer.config import Settings


def main() -> None:
    settings = config.parse()
    problem = _unusable(settings)
    if problem is not None:
        print(f"python -m trainer: {problem}", file=sys.stderr)
        sys.exit(2)
    os.environ.update(environment(settings))
    sys.stdout.flush()
    os.execv(sys.executable, launcher_command(settings, sys.argv[1:]))


def environment(settings: Settings) -> dict[str, str]:
    """What the launcher and its ranks find in their environment, beside what is there already."""
    return {
        # One thread each: sums taken in another order would differ in their last bits, and ranks share the cores.
        "OMP_NUM_THREADS": "1",
        # In-process restart waits for news in short spells; torch would log the end of each as a warning.
        "TORCH_CPP_LOG_LEVEL": os.environ.get("TORCH_CPP_LOG_LEVEL", "ERROR"),
        # What cuBLAS needs to be deterministic.
        "CUBLAS_WORKSPACE_CONFIG": os.environ.get("CUBLAS_WORKSPACE_CONFIG", ":4096:8"),
        # Torch makes this folder when it is imported, used or not; by default in /tmp, where it would stay.
        "TORCHINDUCTOR_CACHE_DIR": str(settings.run.out.absolute() / "launcher" / "compiler"),
    }


def launcher_command(settings: Settings, arguments: list[str]) -> list[str]:
    """The command line of `ft_launcher`; the ranks get our own arguments."""
    run, wait = settings.run, settings.intervals
    return [
        sys.executable,
        *("-m", "nvidia_resiliency_ext.fault_tolerance.launcher"),
        "--standalone",  # a rendezvous of its own on a free port: jobs side by side do not meet
        "--nnodes=1",
        f"--nproc-per-node={run.ranks}",
        f"--max-restarts={run.max_restarts if run.in_job else 0}",
        f"--monitor-interval={wait.monitor_interval_s}",
        f"--workers-stop-timeout={wait.workers_stop_timeout_s}",
        f"--ft-workload-check-interval={wait.workload_check_interval_s}",
        f"--ft-initial-rank-heartbeat-timeout={wait.initial_heartbeat_timeout_s}",
        f"--ft-rank-heartbeat-timeout={wait.heartbeat_timeout_s}",
        # Where no such card exists, looking for one fills the log with tracebacks.
        f"--ft-enable-nic-monitor={os.path.isdir('/sys/class/infiniband')}",
        # Its files about failed ranks; left to itself it makes a folder in /tmp and leaves it there.
        f"--log-dir={run.out / 'launcher'}",
        *("--module", "trainer.train"),
        *arguments,
    ]


def _unusable(settings: Settings) -> str | None:
    """What makes these settings impossible here, in one line; None when they can be run."""
    try:
        corpus.read(settings.data.data, bytes_max=settings.data.data_bytes_max, bytes_min=settings.model.context + 1)
    except corpus.NoText as error:
        return str(error)
    try:
        (settings.run.out / "checkpoints").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"--out {settings.run.out}: {error.strerror or error}"
    return None


if __name__ == "__main__":
    main()
