"""Records the golden logs: real runs of one version of NVRx with two ranks on the CPU, and when each line was said.

    python tests/golden/record.py --site FOLDER_OF_NVRX --site FOLDER_OF_ITS_DEPENDENCIES [exception no_nvml kill stop]

writes `tests/golden/nvrx-<version>/<case>.log` and `<case>.json`. NVRx is found in the folders given first, torch in
the Python that runs this script. README.md tells how to get the folders, and which runs cannot be had.

The truth about time comes from two clocks that no reader under test uses: a hook in every process of the job notes
CLOCK_MONOTONIC when a log record is made, and this script notes when each line reached it through the pipe.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORKER = HERE / "worker.py"
UP_S, RUN_S = 60.0, 90.0
# Loaded at the start of every Python process of the job.
HOOK = """
import json, logging, os, time
_make = logging.getLogRecordFactory()
_notes = os.environ["GOLDEN_NOTES"]
def _noted(*args, **kwargs):
    record = _make(*args, **kwargs)
    now_ns = time.monotonic_ns()
    try:
        line = json.dumps([now_ns, record.created, record.getMessage()]) + "\\n"
        fd = os.open(_notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(fd, line.encode())
        os.close(fd)
    except Exception:
        pass
    return record
logging.setLogRecordFactory(_noted)
"""


@dataclass
class Run:
    """One recording: what came through the pipe and when, and when the harm was done."""

    notes: Path
    lines: list[str] = field(default_factory=list)
    arrived_ns: list[int] = field(default_factory=list)
    fault_ns: int | None = None

    def listen(self, stream: int) -> None:
        """Until the job has closed its end of the pipe."""
        rest = b""
        while chunk := os.read(stream, 1 << 16):
            now_ns = time.monotonic_ns()
            *lines, rest = (rest + chunk).split(b"\n")
            self.lines += [line.decode("utf-8", "replace") for line in lines]
            self.arrived_ns += [now_ns] * len(lines)

    def pid_of(self, rank: int) -> int:
        return int(_await(lambda: self._read(f"pid-0-{rank}"), f"rank {rank} is up"))

    def _read(self, name: str) -> str:
        path = self.notes / name
        return path.read_text() if path.exists() else ""


def _await(look: Callable[[], str], what: str) -> str:
    end_s = time.monotonic() + UP_S
    while not (found := look()):
        if time.monotonic() > end_s:
            raise SystemExit(f"waited {UP_S:g} s and saw no sign that {what}")
        time.sleep(0.02)
    return found


def record(case: str, site: list[Path], out: Path) -> None:
    """One case, recorded and written."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(notes=Path(folder))
        (run.notes / "hook").mkdir()
        (run.notes / "hook" / "sitecustomize.py").write_text(HOOK)
        offset_ns = time.time_ns() - time.monotonic_ns()
        CASES[case](run, _environment(run, site))
        _write(run, case, out, offset_ns, site)


def _environment(run: Run, site: list[Path]) -> dict[str, str]:
    names = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    path = os.pathsep.join(map(str, [run.notes / "hook", *site]))
    return {
        **kept,
        "PYTHONPATH": path,
        "GOLDEN_NOTES": str(run.notes / "said"),
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "TMPDIR": str(run.notes),
    }


def _under_launcher(run: Run, environment: dict[str, str], harm: signal.Signals) -> None:
    job = subprocess.Popen(
        [
            sys.executable, "-m", "nvidia_resiliency_ext.fault_tolerance.launcher", "--nnodes=1", "--nproc-per-node=2",
            "--max-restarts=2", "--monitor-interval=0.2", f"--rdzv-endpoint=127.0.0.1:{_free_port()}",
            "--rdzv-backend=c10d", "--ft-workload-check-interval=0.2", "--ft-initial-rank-heartbeat-timeout=30",
            "--ft-rank-heartbeat-timeout=2", "--ft-enable-nic-monitor=False",
            str(WORKER), "in_job", str(run.notes),
        ],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, cwd=run.notes, start_new_session=True,
    )  # fmt: skip
    with _ended(job), _heard(run, _pipe(job)):
        pid = run.pid_of(1)
        run.pid_of(0)
        time.sleep(1.0)
        run.fault_ns = time.monotonic_ns()
        os.kill(pid, harm)


def _kill(run: Run, environment: dict[str, str]) -> None:
    _under_launcher(run, environment, signal.SIGKILL)


def _stop(run: Run, environment: dict[str, str]) -> None:
    _under_launcher(run, environment, signal.SIGSTOP)


def _exception(run: Run, environment: dict[str, str]) -> None:
    """No launcher, and no LOCAL_RANK: with it 0.6 and 0.7 check GPUs before they restart, and find no NVML here."""
    _without_launcher(run, [{**environment, "RANK": str(rank)} for rank in range(2)])


def _no_nvml(run: Run, environment: dict[str, str]) -> None:
    """The same with LOCAL_RANK and without NVML: from 0.6 on every rank gives up."""
    _without_launcher(run, [{**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(2)])


def _without_launcher(run: Run, environments: list[dict[str, str]]) -> None:
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    read, write = os.pipe()
    jobs = [
        subprocess.Popen(
            [sys.executable, str(WORKER), "in_process"],
            stdout=write, stderr=write, env={**environment, **shared}, start_new_session=True,
        )
        for environment in environments
    ]  # fmt: skip
    os.close(write)
    with _ended(*jobs), _heard(run, read):
        pass
    os.close(read)


@contextmanager
def _heard(run: Run, stream: int) -> Iterator[None]:
    """Listens from the start, in a thread, and until the job has closed its end of the pipe."""
    listener = threading.Thread(target=run.listen, args=(stream,), daemon=True)
    listener.start()
    yield
    listener.join()


@contextmanager
def _ended(*jobs: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ends the sessions of the jobs whatever happens, and says when they took too long."""

    def late(*_: object) -> None:
        raise SystemExit(f"the job did not end within {RUN_S:g} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(int(RUN_S))
    try:
        yield
    finally:
        signal.alarm(0)
        for job in jobs:
            with suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()


CASES: dict[str, Callable[[Run, dict[str, str]], None]] = {
    "exception": _exception,
    "no_nvml": _no_nvml,
    "kill": _kill,
    "stop": _stop,
}


def _pipe(job: subprocess.Popen[bytes]) -> int:
    assert job.stdout is not None
    return job.stdout.fileno()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _write(run: Run, case: str, out: Path, offset_ns: int, site: list[Path]) -> None:
    """The log with neutral names, and beside it when each of its lines arrived and was said, if a hook heard it."""
    start_ns = run.arrived_ns[0] - 1_000_000_000
    said_ns = _said(run)
    kept = [number for number, line in enumerate(run.lines) if _is_kept(line)]
    (out / f"{case}.log").write_text("".join(f"{_neutral(run.lines[number], run, site)}\n" for number in kept))
    about = {
        "nvrx": out.name.removeprefix("nvrx-"),
        "start_mono_ns": start_ns,
        "start_wall_ns": start_ns + offset_ns,
        "fault_ns": None if run.fault_ns is None else run.fault_ns - start_ns,
        "arrived_ns": [run.arrived_ns[number] - start_ns for number in kept],
        "said_ns": {at + 1: said_ns[number] - start_ns for at, number in enumerate(kept) if number in said_ns},
    }
    (out / f"{case}.json").write_text(json.dumps(about) + "\n")
    print(f"{out.name}/{case}: {len(kept)} lines, {len(about['said_ns'])} of them heard as they were said")


def _is_kept(line: str) -> bool:
    """Tracebacks and lists of settings are left out: long, and other people's."""
    return bool(line) and not line[0].isspace() and not line.startswith(("Traceback", "During", "The above"))


def _said(run: Run) -> dict[int, int]:
    """Index of a line -> when its record was made. Told apart by words and by the milliseconds of its stamp."""
    found: dict[int, int] = {}
    for note in sorted(map(json.loads, (run.notes / "said").read_text().splitlines())):
        mono_ns, created, message = note
        words = message.split("\n")[0].rstrip()
        stamp = time.strftime("%H:%M:%S", time.localtime(created)) + f"[,.]{int((created - int(created)) * 1000):03d}"
        for number, line in enumerate(run.lines):
            if words and number not in found and line.endswith(words) and re.search(stamp, line):
                found[number] = mono_ns
                break
    return found


def _neutral(line: str, run: Run, site: list[Path]) -> str:
    """Without names of this machine. Longest paths first: one lies in another."""
    names = {str(run.notes): "/tmp/run", str(WORKER): "worker.py", sys.executable: "/usr/bin/python3"}
    names |= {str(folder): "/site-packages" for folder in site}
    names |= {sys.prefix: "/usr", sys.base_prefix: "/usr"}
    for name in sorted(names, key=len, reverse=True):
        line = line.replace(name, names[name])
    return re.sub(rf"(?<![A-Za-z0-9.-]){re.escape(socket.gethostname())}(?![A-Za-z0-9.-])", "node0", line)


def main() -> None:
    parser = argparse.ArgumentParser(description="Record the golden logs of one version of NVRx.")
    parser.add_argument("--site", type=Path, action="append", required=True, help="folder with NVRx; then its needs")
    parser.add_argument("--out", type=Path, help="tests/golden/nvrx-<version> when left out")
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], help="all when left out")
    given = parser.parse_args()
    site = [folder.resolve() for folder in given.site]
    (found,) = site[0].glob("nvidia_resiliency_ext-*.dist-info")
    version = found.name.removeprefix("nvidia_resiliency_ext-").removesuffix(".dist-info")
    out = (given.out or HERE) / f"nvrx-{version}"
    out.mkdir(parents=True, exist_ok=True)
    for case in given.cases or CASES:
        record(case, site, out)


if __name__ == "__main__":
    main()
