"""Every mutant is caught by its check, by nothing that is not named, and each check is the only one to catch some."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from judging import Judging, outcomes, words
from mutant import Mutant
from zoo import MUTANTS

from chaos.conclude import judge_run
from chaos.judge import judge
from chaos.judge.checks.registry import REGISTRY
from chaos.model.verdict import Verdict

CAUGHT = Path(__file__).resolve().parent / "caught.json"
AT_LEAST = 28
of_each_mutant = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)


@pytest.fixture(scope="module")
def judging(tmp_path_factory) -> Judging:
    return Judging(tmp_path_factory.mktemp("zoo"))


def found_by(verdict: Verdict) -> set[str]:
    """The checks that keep this run from passing."""
    return outcomes(verdict, "fail", "unknown")


def test_there_are_enough_of_them():
    assert len(MUTANTS) >= AT_LEAST


# --- every mutant is caught


@of_each_mutant
def test_it_is_caught_and_only_by_what_is_named(judging: Judging, mutant: Mutant):
    verdict = judging.mutant(mutant)
    assert verdict.outcome == ("failed" if mutant.must_fail else "unknown"), words(verdict)
    failed = outcomes(verdict, "fail")
    assert set(mutant.must_fail) <= failed, words(verdict)
    assert failed <= {*mutant.must_fail, *mutant.may_fail}, words(verdict)
    assert set(mutant.must_be_unknown) <= outcomes(verdict, "unknown"), words(verdict)


@of_each_mutant
def test_its_twin_gives_those_checks_no_cause(judging: Judging, mutant: Mutant):
    verdict = judging.twin(mutant)
    assert set(mutant.caught_by) <= outcomes(verdict, "pass"), words(verdict)


# --- no check can be spared


@pytest.mark.parametrize("check", [spec.name for spec in REGISTRY])
def test_without_this_check_a_mutant_survives(judging: Judging, monkeypatch, check: str):
    only_here = [mutant for mutant in MUTANTS if found_by(judging.mutant(mutant)) == {check}]
    assert only_here, f"no mutant that {check} alone finds"
    monkeypatch.setattr(judge, "REGISTRY", tuple(spec for spec in REGISTRY if spec.name != check))
    survivor, _ = judge_run(judging.history_of(only_here[0]))
    assert survivor.outcome == "passed", words(survivor)


# --- what people read


def test_the_table_says_by_what_each_was_caught(judging: Judging):
    caught = {
        mutant.name: {
            "failed": sorted(outcomes(judging.mutant(mutant), "fail")),
            "unknown": sorted(outcomes(judging.mutant(mutant), "unknown")) if not mutant.must_fail else [],
        }
        for mutant in MUTANTS
    }
    if os.environ.get("UPDATE_GOLDEN"):
        CAUGHT.write_text(json.dumps(caught, indent=1) + "\n")
    assert json.loads(CAUGHT.read_text()) == caught, (
        "next: UPDATE_GOLDEN=1 pytest tests/mutants; then: python docs/generate.py"
    )
