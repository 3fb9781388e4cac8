"""Places for real runs: short paths (a socket's name ends at 107 bytes), and a look afterwards at what is left."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from real_runs import QUICK, REPEATS_MAX, Ended, Place, undecided_by_noise


@pytest.fixture(scope="session")
def work() -> Iterator[Path]:
    """One short folder for all real runs of this test session."""
    folder = Path(tempfile.mkdtemp(prefix="nvrx-real-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def shared_out(work: Path) -> Path:
    """The output folder of every run that is compared with fault-free ones: those are made once."""
    return work / "out"


@pytest.fixture
def place(work: Path) -> Iterator[Place]:
    """A home and an output folder of this test's own; after it nothing may be left of all it started."""
    yield from _place(work)


@pytest.fixture
def place_with_controls(work: Path, shared_out: Path) -> Iterator[Place]:
    """The same, but the fault-free runs are those of the whole session."""
    yield from _place(work, out=shared_out)


@pytest.fixture(scope="session")
def quick_place(work: Path, shared_out: Path) -> Iterator[Place]:
    yield from _place(work, out=shared_out)


@pytest.fixture(scope="session")
def suite(quick_place: Place) -> Ended:
    """What `run scenarios/quick` gave."""
    return quick_place.run(QUICK, timeout=900)


@pytest.fixture(scope="session")
def quick(quick_place: Place, suite: Ended) -> dict[str, dict[str, Any]]:
    """scenario -> {run_dir, verdict}. What a busy machine left undecided is run again, with the command that the
    verdict itself names; what failed is not."""
    runs = {run["verdict"]["scenario"]: run for run in suite.runs}
    for name in runs:
        for _ in range(REPEATS_MAX):
            if not undecided_by_noise(runs[name]["verdict"]):
                break
            runs[name] = quick_place.repeat(runs[name]["verdict"]).runs[-1]
    return runs


@pytest.fixture(scope="session")
def killed_run(quick: dict[str, dict[str, Any]]) -> Path:
    """A recorded run that passed: a worker was killed and brought back."""
    run = quick["kill-worker[rank=1]"]
    assert run["verdict"]["outcome"] == "passed", run["verdict"]["sentence"]
    return Path(run["run_dir"])


def _place(work: Path, *, out: Path | None = None) -> Iterator[Place]:
    folder = Path(tempfile.mkdtemp(prefix="t", dir=work))
    place = Place(folder=folder, out=out or folder / "out")
    try:
        yield place
        left = place.left()
        assert left == [], f"still running after the test: {left}"
        assert place.open_entries() == []
    finally:
        place.end()
        shutil.rmtree(folder, ignore_errors=True)
