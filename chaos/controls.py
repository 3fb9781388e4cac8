"""The fault-free runs of a job: what they are cached under, where they lie, which of them are there.

A control is an ordinary run directory. It is found again when job, code, data, versions and machine are the same;
the judge still refuses one whose `settings_seen` differ from the run's.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from chaos.model.plan import JobPlan, LimitsPlan, ObjectivePlan, Plan

FOLDER = "controls"
PAIR = 2
TRIES = 4  # a control that a busy machine spoilt is made again, this often at most
_VERSIONED = ("torch", "nvidia-resiliency-ext", "numpy")
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "ATEN_CPU_CAPABILITY")


def wanted(plan: Plan) -> bool:
    """Whether `state_exact` is asked, the one check that compares with fault-free runs."""
    objective = plan.objective
    if "state_exact" in objective.added:
        return True
    asked = plan.job.run is not None or objective.state_close is not None
    return asked and "state_exact" not in objective.dropped


def control_plan(plan: Plan) -> Plan:
    """The same job without faults, held to nothing but to end by itself."""
    return Plan(
        scenario="control-pair",
        title=f"fault-free run of the job of {plan.scenario}",
        why="what the job does when nothing happens to it: a witness for state and data",
        source=plan.source,
        seed=plan.seed,
        repeat=plan.repeat,
        job=plan.job,
        steady_steps=plan.steady_steps,
        objective=ObjectivePlan(recovered_by=("none",), dropped=("state_exact",)),
        limits=LimitsPlan(timeout_s=plan.limits.timeout_s),
    )


def folder(out: Path, plan: Plan, job_root: Path) -> Path:
    """Where the controls of this job lie. `job_root` holds the shipped job's code."""
    return out / FOLDER / cache_key(plan.job, job_root)


def cache_key(job: JobPlan, job_root: Path) -> str:
    """Digest of everything that a repeat of the job depends on."""
    facts = {
        "job": msgspec.to_builtins(job),
        "code": _code(job, job_root),
        "data": _data(job),
        "versions": {name: _version(name) for name in _VERSIONED} | {"python": sys.version},
        "machine": [platform.machine(), platform.release(), _cpu()],
        "threads": {name: os.environ.get(name) for name in _THREADS},
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def run_dirs(controls: Path) -> list[Path]:
    """The control runs that are there, the newest last."""
    try:
        return sorted(path for path in controls.iterdir() if (path / "verdict.json").is_file())
    except OSError:
        return []


def _code(job: JobPlan, job_root: Path) -> str:
    if job.run is not None:
        return _digest_of(sorted((job_root / job.run).rglob("*.py")), job_root)
    files = [Path(word) for word in job.command or () if Path(word).is_file()]
    return _digest_of(files, Path())


def _data(job: JobPlan) -> str:
    path = job.args.get("data")
    if path is None:
        return "the standard library's own source"
    place = Path(str(path))
    files = sorted(place.rglob("*")) if place.is_dir() else [place]
    return _digest_of([file for file in files if file.is_file()], place)


def _digest_of(files: list[Path], root: Path) -> str:
    """Names relative to `root`, so that a checkout that was moved keeps its controls; each content has its length
    before it, so that no two sets of files read the same."""
    digest = hashlib.sha256()
    for file in files:
        try:
            content = file.read_bytes()
        except OSError as error:
            content = f"unreadable: {error.strerror}".encode()
        digest.update(f"{os.path.relpath(file, root)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _cpu() -> list[str]:
    """Model and capabilities: sums differ between AVX2 and AVX-512."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return [platform.processor()]
    wanted = ("model name", "flags", "Features", "CPU part")
    first = [line for line in lines if line.split(":")[0].strip() in wanted]
    return sorted(set(first))
