"""What watching costs a job: the agent's own time a step, and the step time with and without agent and observer.

Part 1 measures around the agent's calls (bench/timed_agent) over 1000 steps with a checkpoint every 250. Goal: 99 % of
all steps at most 100 microseconds. Steps in which a checkpoint is saved or committed report twice as much as others.
Part 2 runs pairs of jobs back to back in random order, 150 steps each, the first 30 dropped: one by itself, one under
`nvrx-chaos run`. The ratio is of the medians over all steps with and without; the bootstrap draws whole pairs.
Goal: the upper end of its 95 % interval at most 1.03.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
CLI = [sys.executable, "-c", "from chaos.cli.main import main; main()"]
STEPS, DROPPED = 150, 30
TIMED_STEPS, TIMED_CHECKPOINTS = 1000, 250  # a checkpoint every 5 seconds: far more often than real jobs
AGENT_GOAL_US, RATIO_GOAL = 100.0, 1.03
SCENARIO = """\
schema: nvrx-chaos/scenario/1
name: overhead
job:
  run: trainer
  recovery: [in_job]
  steps: {steps}
  args: {{metrics: "{metrics}", checkpoint_every: {every}}}
  env: {env}
objective: {{recovered_by: none, checks: {{drop: [state_exact]}}}}
"""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pairs", type=int, default=30)
    options.add_argument("--seed", type=int, default=0, help="of the order within pairs, and of the bootstrap")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="nvrx-bench-") as scratch:
        agent_met = agent_time(Path(scratch))
        ratio_met = pairs(Path(scratch), arguments.pairs, random.Random(arguments.seed))
    return 0 if agent_met and ratio_met else 1


def agent_time(scratch: Path) -> bool:
    """Part 1."""
    env = {"NVRX_BENCH_AGENT": str(scratch / "agent"), "PYTHONPATH": str(ROOT / "bench" / "timed_agent")}
    watched(scratch, "timed", env, steps=TIMED_STEPS, every=TIMED_CHECKPOINTS)
    sums_us = []
    for file in scratch.glob("agent.*"):
        sums_us += [nanoseconds / 1e3 for nanoseconds in json.loads(file.read_text())[DROPPED:]]
    middle, p99, most = (float(np.percentile(sums_us, q)) for q in (50, 99, 100))
    met = p99 <= AGENT_GOAL_US
    print(
        f"agent's own time a step, {len(sums_us)} steps of 2 ranks: median {middle:.0f} us, p99 {p99:.0f} us,"
        f" most {most:.0f} us; goal p99 at most {AGENT_GOAL_US:.0f} us: {'met' if met else 'MISSED'}",
        flush=True,
    )
    return met


def pairs(scratch: Path, count: int, rng: random.Random) -> bool:
    """Part 2."""
    with_s, without_s = [], []
    print("pair   without ms   with ms   ratio   first")
    for number in range(1, count + 1):
        order = rng.sample(["with", "without"], 2)
        times = {}
        for which in order:
            name = f"{which}-{number}"
            times[which] = watched(scratch, name, {}) if which == "with" else alone(scratch, name)
        with_s.append(times["with"])
        without_s.append(times["without"])
        one, other = (statistics.median(times[which]) * 1e3 for which in ("without", "with"))
        print(f"{number:4d}   {one:10.2f}   {other:7.2f}   {other / one:5.3f}   {order[0]}", flush=True)
    ratio, low, high = bootstrap(np.array(with_s), np.array(without_s), rng.randrange(2**32))
    met = high <= RATIO_GOAL
    print(
        f"ratio of medians over {count} pairs: {ratio:.4f}, 95 % bootstrap interval {low:.4f} to {high:.4f};"
        f" goal: upper end at most {RATIO_GOAL}: {'met' if met else 'MISSED'}"
    )
    return met


def bootstrap(with_s: np.ndarray, without_s: np.ndarray, seed: int, draws: int = 4_000) -> tuple[float, float, float]:
    """Ratio of the medians over all steps, with its 95 % percentile interval. Arrays: pairs x steps, seconds."""
    generator = np.random.default_rng(seed)
    ratios = []
    for _ in range(draws):
        pick = generator.integers(0, len(with_s), size=len(with_s))
        ratios.append(np.median(with_s[pick]) / np.median(without_s[pick]))
    low, high = np.percentile(ratios, [2.5, 97.5])
    return float(np.median(with_s) / np.median(without_s)), float(low), float(high)


def alone(scratch: Path, name: str) -> list[float]:
    """Step times of a job that nobody watches, seconds."""
    metrics = scratch / f"{name}.jsonl"
    command = [sys.executable, "-m", "trainer", "--ranks", "2", "--recovery", "in_job", "--steps", str(STEPS)]
    command += ["--out", str(scratch / name), "--metrics", str(metrics)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return step_times(metrics)


def watched(scratch: Path, name: str, env: dict[str, str], steps: int = STEPS, every: int = 20) -> list[float]:
    """Step times of the same job under `nvrx-chaos run`, seconds."""
    metrics, scenario = scratch / f"{name}.jsonl", scratch / f"{name}.yaml"
    scenario.write_text(SCENARIO.format(steps=steps, every=every, metrics=metrics, env=json.dumps(env)))
    command = [*CLI, "run", str(scenario), "--out", str(scratch / "runs"), "--quiet"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode not in (0, 3):
        raise SystemExit(f"the watched job failed (exit {done.returncode}):\n{done.stdout}")
    return step_times(metrics)


def step_times(metrics: Path) -> list[float]:
    """Seconds between the ends of steps, without the first ones."""
    ends = [json.loads(line)["monotonic_s"] for line in metrics.read_text().splitlines()]
    return [later - earlier for earlier, later in itertools.pairwise(ends)][DROPPED:]


if __name__ == "__main__":
    sys.exit(main())
