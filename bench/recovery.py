"""How long recovery takes: an exception in-process, a kill and a hang in-job, and the whole job started anew.

Runs the quick scenarios, REPEATS times each and in turn, and reads the times from the verdicts: from the fault to
the first new step on all ranks. "Anew" is measured in the same runs: from starting the launcher to the first step
on all ranks. Prints every figure, medians, ranges, the ratios and the trainer's intervals.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CLI = [sys.executable, "-c", "from chaos.cli.main import main; main()"]
HEARTBEAT = "heartbeat_timeout_s"
PATHS = {
    "exception, in-process": "exception-in-backward.yaml",
    "kill, in-job": "kill-worker.yaml",
    "hang, in-job": "hang-worker.yaml",
}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--out", type=Path, default=None, help="keep the run directories here")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="nvrx-bench-") as scratch:
        return measure(arguments.out or Path(scratch), arguments.repeats)


def measure(out: Path, repeats: int) -> int:
    found: dict[str, list[float]] = {name: [] for name in PATHS}
    anew: list[float] = []
    settings: dict[str, Any] = {}
    for number in range(repeats):
        for name, file in PATHS.items():
            run = one_run(out, file)
            verdict = run["verdict"]
            (incident,) = verdict["incidents"]
            found[name].append(incident["recovery_time_s"])
            anew.append(start_to_first_step_s(Path(run["run_dir"])))
            settings = verdict["settings_seen"]
            print(
                f"  {number + 1}/{repeats} {name}: {incident['recovery_time_s']:.2f} s ({verdict['outcome']})",
                flush=True,
            )
    return show(found, anew, settings)


def one_run(out: Path, file: str) -> dict[str, Any]:
    scenario = str(ROOT / "scenarios" / "quick" / file)
    command = [*CLI, "run", scenario, "--set", "faults.0.target.rank=1", "--out", str(out), "--json", "--quiet"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    (run,) = json.loads(done.stdout)["runs"]
    if len(run["verdict"]["incidents"]) != 1 or run["verdict"]["incidents"][0]["recovery_time_s"] is None:
        raise SystemExit(f"{file} did not recover: {run['verdict']['sentence']} (see {run['run_dir']})")
    return run  # type: ignore[no-any-return]


def start_to_first_step_s(run_dir: Path) -> float:
    """From the launcher's start to the first step that the last rank finished."""
    started, first = 0, {}
    for file in (run_dir / "history").glob("*.jsonl"):
        for line in file.read_text().splitlines():
            event = json.loads(line)
            if event["kind"] == "job_started":
                started = event["t_ns"]
            elif event["kind"] == "step_done" and event["step"] == 0:
                first[event["rank"]] = event["t_ns"]
    return (max(first.values()) - started) / 1e9


def show(found: dict[str, list[float]], anew: list[float], settings: dict[str, Any]) -> int:
    print("\nfault to first new step on all ranks")
    rows = {**found, "whole job anew": anew}
    for name, times in rows.items():
        print(
            f"  {name:<24} median {statistics.median(times):6.2f} s   range {min(times):6.2f} to {max(times):6.2f} s"
            f"   n={len(times)}"
        )
    in_process, in_job = (statistics.median(found[name]) for name in list(PATHS)[:2])
    whole = statistics.median(anew)
    print(f"  ratios in-process : in-job : anew = 1 : {in_job / in_process:.1f} : {whole / in_process:.1f}")
    print("\nthe trainer's stated intervals, seconds")
    for name, value in sorted(settings.items()):
        if name.endswith("_s"):
            print(f"  {name:<36} {value}")
    goals = {
        "exception, in-process": 1.0,
        "kill, in-job": 4.0,
        "hang, in-job": float(settings[HEARTBEAT]) + 4.0,
    }
    met = True
    print("\ngoals (medians)")
    for name, goal in goals.items():
        middle = statistics.median(found[name])
        met &= middle <= goal
        print(f"  {name:<24} at most {goal:4.1f} s: {middle:5.2f} s {'met' if middle <= goal else 'MISSED'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
