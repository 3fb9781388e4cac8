"""How long the command line takes to start: `nvrx-chaos --help` and `validate`, beside an empty Python.

Prints medians and ranges of RUNS runs, taken in turn so that a drifting machine touches all alike.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS = 11
GOAL_S = 0.4
ROOT = Path(__file__).resolve().parent.parent
CLI = [sys.executable, "-c", "from chaos.cli.main import main; main()"]
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "nvrx-chaos --help": [*CLI, "--help"],
    "nvrx-chaos validate scenarios/quick": [*CLI, "validate", str(ROOT / "scenarios" / "quick")],
}


def main() -> int:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(RUNS + 1):
        for name, command in COMMANDS.items():
            began = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            times[name].append(time.perf_counter() - began)
    base = statistics.median(times["python -c pass"][1:])
    met = True
    for name, each in times.items():
        warm = each[1:]  # the first run fills the caches
        middle = statistics.median(warm)
        met &= middle < GOAL_S
        print(
            f"{name:<38} median {middle:5.3f} s   range {min(warm):5.3f} to {max(warm):5.3f} s"
            f"   {middle / base:4.1f} x an empty Python"
        )
    print(f"goal: under {GOAL_S} s: {'met' if met else 'MISSED'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
