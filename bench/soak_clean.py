"""False alarms and false passes, counted: fault-free and recovering jobs, and jobs that truly miss their objective.

Three groups of runs of the reference job, each run by `nvrx-chaos run`:
  clean       fault-free; every second one beside busy processes, one for each CPU
  recovering  a fault of scenarios/quick that the job recovers from; every second one beside busy processes
  missed      the same, held to a tenth of the time that such a recovery takes
Goal: of clean and recovering none failed, at most 5 % unknown, each with its reason; of missed none passed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CLI = [sys.executable, "-c", "from chaos.cli.main import main; main()"]
QUICK = ROOT / "scenarios" / "quick"
# file, rank, a time that a recovery from it never takes: a tenth of the usual one
FAULTS = (
    ("exception-in-backward.yaml", 1, "40ms"), ("kill-worker.yaml", 1, "300ms"),
    ("exception-in-backward.yaml", 0, "40ms"), ("kill-worker.yaml", 0, "300ms"), ("hang-worker.yaml", 1, "600ms"),
)  # fmt: skip
UNKNOWN_SHARE_MAX = 0.05
BUSY = "while True: pass"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--clean", type=int, default=40)
    options.add_argument("--recovering", type=int, default=40)
    options.add_argument("--missed", type=int, default=20)
    options.add_argument("--out", type=Path, default=None, help="keep the run directories here")
    arguments = options.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="nvrx-soak-") as scratch:
        soak = Soak(arguments.out or Path(scratch))
        soak.group("clean", arguments.clean, busy=True)
        soak.group("recovering", arguments.recovering, busy=True)
        soak.group("missed", arguments.missed, busy=False)
    print(f"{soak.number} runs in {(time.monotonic() - began) / 60:.0f} minutes")
    return soak.conclude()


class Soak:
    def __init__(self, out: Path) -> None:
        self.out = out
        self.number = 0
        self.outcomes: dict[str, Counter[str]] = {}
        self.mute = 0  # unknown without a reason

    def group(self, name: str, count: int, *, busy: bool) -> None:
        self.outcomes[name] = Counter()
        for index in range(count):
            # pairs of runs with the same fault, one of each pair beside busy processes
            beside = busy and index % 2 == 1
            which = index // 2 if busy else index
            with busy_processes(os.cpu_count() or 1 if beside else 0):
                verdict = self._run(name, which)
            self.number += 1
            self.outcomes[name][verdict["outcome"]] += 1
            reasons = [check for check in verdict["checks"] if check["outcome"] == "unknown"]
            if verdict["outcome"] == "unknown" and not any(check["observed"] for check in reasons):
                self.mute += 1
            recovery = "".join(f"  {each['recovery_time_s'] or 0:.2f} s" for each in verdict["incidents"])
            why = "" if verdict["outcome"] == "passed" else f"  {verdict['sentence']}"
            print(
                f"{self.number:4d}  {name:10}  {verdict['scenario']:36}  {'busy' if beside else 'idle'}"
                f"  {verdict['outcome']:8}{recovery}{why}",
                flush=True,
            )

    def _run(self, group: str, which: int) -> dict[str, Any]:
        if group == "clean":
            arguments = [str(QUICK / "control.yaml")]
        else:
            file, rank, too_short = FAULTS[which % len(FAULTS)]
            arguments = [str(QUICK / file), "--set", f"faults.0.target.rank={rank}"]
            if group == "missed":
                arguments += ["--set", f"objective.recovery_time={too_short}"]
        command = [*CLI, "run", *arguments, "--out", str(self.out), "--json", "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        try:
            (run,) = json.loads(done.stdout)["runs"]
        except (ValueError, KeyError):
            raise SystemExit(f"nvrx-chaos run ended with {done.returncode}:\n{done.stderr}") from None
        verdict: dict[str, Any] = run["verdict"]
        return verdict

    def conclude(self) -> int:
        met = self.mute == 0
        for name, outcomes in self.outcomes.items():
            count = sum(outcomes.values())
            share = outcomes["unknown"] / max(1, count)
            clean = not outcomes["failed"] and share <= UNKNOWN_SHARE_MAX
            good = not outcomes["passed"] if name == "missed" else clean
            met = met and good
            told = ", ".join(f"{outcomes[word]} {word}" for word in ("passed", "failed", "unknown", "not_run"))
            print(f"{name:10}  {told}: {'met' if good else 'MISSED'}")
        if self.mute:
            print(f"{self.mute} unknown without a reason: MISSED")
        return 0 if met else 1


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Processes that use all the CPU they get, for as long as the block runs."""
    hogs = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


if __name__ == "__main__":
    sys.exit(main())
