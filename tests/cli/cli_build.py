"""The command line in this process, or in one of its own where its imports, streams or exit status are looked at."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from chaos.model.plan import JobPlan, Plan
from chaos.model.verdict import Check, Verdict
from chaos.scenario.experiment import experiment

ROOT = Path(__file__).resolve().parents[2]
QUICK = str(ROOT / "scenarios" / "quick")


def run(*arguments, home=None, **streams):
    """`nvrx-chaos ARGUMENTS` in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if home is not None:
        environment["NVRX_CHAOS_HOME"] = str(home)
    streams = streams or {"capture_output": True}
    command = [sys.executable, "-c", "from chaos.cli.main import main; main()", *map(str, arguments)]
    return subprocess.run(command, env=environment, text=True, timeout=60, check=False, **streams)


def verdict(outcome="passed", run_id="r1", **changes):
    fields = {
        "scenario": "kill-worker",
        "run_id": run_id,
        "seed": 0,
        "outcome": outcome,
        "sentence": f"the run {outcome}",
        "checks": (Check(name="undone", outcome="pass", expected="all undone", observed="all undone"),),
        "repeat": "nvrx-chaos run kill-worker.yaml --seed 0",
    }
    return Verdict(**{**fields, **changes})


def run_dir(folder, run_id="r1", outcome="passed", **changes):
    """A recorded run: its plan, an empty history without a manifest, its verdict."""
    path = folder / run_id
    (path / "history").mkdir(parents=True)
    plan = Plan(scenario="kill-worker", job=JobPlan(run="trainer"))
    (path / "experiment.json").write_bytes(msgspec.json.encode(experiment(plan, str(path))))
    (path / "verdict.json").write_bytes(msgspec.json.encode(verdict(outcome, run_id, **changes)))
    return path
