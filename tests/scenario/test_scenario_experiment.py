"""The experiment: valid for Chaos Toolkit, the plan once and whole, nothing decided by the sequencer."""

from __future__ import annotations

import json
import sys
import types

import pytest
from scenario_build import FORESEEN, load_text

from chaos import conclude
from chaos.scenario.experiment import ACTIVITIES, experiment
from chaos.scenario.plan import compile_plan


@pytest.fixture
def plan(tmp_path):
    return compile_plan(load_text(tmp_path, FORESEEN)[0], seed=3)


@pytest.fixture
def written(plan):
    return json.loads(json.dumps(experiment(plan, "some/run")))


def test_the_experiment_carries_the_whole_plan(written, plan, tmp_path):
    (tmp_path / conclude.EXPERIMENT).write_text(json.dumps(written))
    assert conclude.read_plan(tmp_path) == plan
    assert written["configuration"]["run_dir"] == "some/run"


def test_the_method_arms_each_fault_in_order_and_concludes(written):
    steps = [(a["provider"]["func"], a["provider"].get("arguments")) for a in written["method"]]
    assert steps == [("arm", {"fault": "kill"}), ("arm", {"fault": "hang"}), ("conclude", None)]


def test_one_probe_asks_and_rollbacks_always_run(written):
    (probe,) = written["steady-state-hypothesis"]["probes"]
    assert (probe["provider"]["module"], probe["provider"]["func"]) == ("chaos.toolkit.probes", "steady_or_passed")
    assert probe["tolerance"] is True
    assert [a["provider"]["func"] for a in written["rollbacks"]] == ["undo_all"]
    assert written["runtime"]["rollbacks"]["strategy"] == "always"


def test_chaos_toolkit_leaves_the_configuration_as_it_is(written):
    from chaoslib.configuration import load_configuration

    assert load_configuration(written["configuration"]) == written["configuration"]


def test_no_top_level_key_of_a_plan_is_called_type(written):
    assert "type" not in written["configuration"]["plan"]


def test_chaos_toolkit_takes_the_experiment_for_valid(written, monkeypatch):
    from chaoslib.experiment import ensure_experiment_is_valid

    # The activities stand in here: whether the real ones exist is for the room that holds them to show.
    def takes_fault(fault, configuration=None): ...

    def takes_nothing(configuration=None): ...

    for module_name, function in ACTIVITIES:
        module = sys.modules.get(module_name) or types.ModuleType(module_name)
        monkeypatch.setitem(sys.modules, module_name, module)
        monkeypatch.setattr(module, function, takes_fault if function == "arm" else takes_nothing, raising=False)
    ensure_experiment_is_valid(written)


def test_a_scenario_without_faults_only_concludes(tmp_path):
    text = "schema: nvrx-chaos/scenario/1\nname: control\njob: {run: trainer}\n"
    plan = compile_plan(load_text(tmp_path, text)[0], seed=0)
    written = experiment(plan, "x")
    assert [a["provider"]["func"] for a in written["method"]] == ["conclude"]
    assert written["title"] == "control"
    assert written["description"]
