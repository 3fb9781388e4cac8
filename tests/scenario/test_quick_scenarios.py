"""The shipped quick scenarios: loadable, one layer each, every fault covered, also on rank 0."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import chaos
from chaos.faults.catalogue import BY_NAME
from chaos.scenario.discover import find_files
from chaos.scenario.load import load_paths
from chaos.scenario.plan import compile_plan

QUICK = Path(chaos.__file__).parent.parent / "scenarios" / "quick"
PLANS = [compile_plan(scenario, seed=0) for scenario in load_paths(find_files([QUICK]))]
every_plan = pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.scenario)


def test_the_suite_is_the_control_and_each_fault_on_both_ranks():
    assert [plan.scenario for plan in PLANS] == [
        "control",
        "exception-in-backward[rank=1]",
        "exception-in-backward[rank=0]",
        "hang-worker[rank=1]",
        "hang-worker[rank=0]",
        "kill-worker[rank=1]",
        "kill-worker[rank=0]",
    ]
    assert {fault.fault for plan in PLANS for fault in plan.faults} == set(BY_NAME)


@every_plan
def test_each_switches_on_one_layer_and_recovers_by_it(plan):
    assert len(plan.job.recovery) == 1
    if plan.faults:
        assert plan.objective.recovered_by == plan.job.recovery
        assert plan.objective.recovered_by == (BY_NAME[plan.faults[0].fault].usual_layer,)


def test_the_control_must_need_no_recovery():
    assert PLANS[0].faults == ()
    assert PLANS[0].objective.recovered_by == ("none",)


@every_plan
def test_faults_fall_in_the_last_third_of_a_checkpoint_interval(plan):
    every = plan.job.args["checkpoint_every"]
    for fault in plan.faults:
        assert 2 * every / 3 <= fault.at.step % every < every - 1
        assert fault.at.step > every, "there is a checkpoint to come back to"


@every_plan
def test_each_says_in_words_why_it_is_there(plan):
    assert len(plan.title) > 20
    assert re.search(r"\bI\d\d\b", plan.why)


@pytest.mark.parametrize("file", sorted(QUICK.glob("*.yaml")), ids=lambda file: file.name)
def test_each_scenario_tells_editors_its_schema(file):
    first = file.read_text().splitlines()[0]
    if file.name != "defaults.yaml":
        path = first.removeprefix("# yaml-language-server: $schema=")
        assert (file.parent / path).resolve().is_file()
