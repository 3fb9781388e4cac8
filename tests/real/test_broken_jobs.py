"""Broken jobs of tests/mutants, run anew: the named checks find them, and no other fails.

Four of them in each run of the tests, other ones with each commit; `make test-all` runs them all.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from real_runs import REPOSITORY, Place, all_words

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mutants"))

from record import JOBS, TRIES, problem_of, run
from recorded_runs import keys_of

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

AT_A_TIME = 4


def turn_of(commit: str) -> list[str]:
    """The names whose turn it is: as many in a row, begun where the commit says."""
    names = sorted(JOBS)
    first = int(commit[:12] or "0", 16)
    return [names[(first + number) % len(names)] for number in range(AT_A_TIME)]


def commit_of_this() -> str:
    """Empty where this is no checkout."""
    asked = ["git", "-C", str(REPOSITORY), "rev-parse", "--verify", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


TURN = turn_of(commit_of_this())
BY_TURN = [pytest.param(name, marks=() if name in TURN else pytest.mark.slow) for name in sorted(JOBS)]


@pytest.fixture(scope="module")
def twin_passes(quick_place: Place):
    """Runs a twin once. It also makes the fault-free runs of the job, and makes them without a defect."""
    asked: set[str] = set()

    def passes(twin: str) -> None:
        if twin not in asked:
            asked.add(twin)
            verdict = quick_place.run_until_decided(quick_place.scenario(twin, **keys_of(twin)), timeout=600).verdict
            assert problem_of(twin, verdict) == "", all_words(verdict)

    return passes


@pytest.mark.parametrize("name", BY_TURN)
def test_run_anew_it_is_found_by_its_checks_and_nothing_else_fails(place_with_controls: Place, twin_passes, name: str):
    twin_passes(JOBS[name].twin)
    for _ in range(TRIES):
        verdict = run(place_with_controls, name, JOBS[name]).verdict
        if not (problem := problem_of(name, verdict)):
            break
    assert problem == "", all_words(verdict)


def test_with_enough_commits_everyone_has_a_turn():
    assert {name for commit in range(len(JOBS)) for name in turn_of(f"{commit:040x}"[-12:])} == set(JOBS)
    assert len(set(turn_of("f" * 40))) == AT_A_TIME
