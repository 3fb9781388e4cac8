"""Loading: defaults, the file, `vary` and `--set`, each on top of the one before."""

from __future__ import annotations

import shlex

import pytest
from scenario_build import SHORTEST, WHOLE, edited, load_text

from chaos.errors import ScenarioInvalid
from chaos.scenario.load import load_path, load_paths, load_scenario
from chaos.scenario.plan import compile_plan
from chaos.scenario.schema import Target
from chaos.scenario.units import seconds


def one(tmp_path, text, *sets):
    (scenario,) = load_text(tmp_path, text, *sets)
    return scenario


def test_the_shortest_file_gets_every_default(tmp_path):
    spec = one(tmp_path, SHORTEST).spec
    assert (spec.job.ranks_per_node, spec.job.steps, spec.steady_state.steps) == (2, 120, 10)
    assert spec.job.args == {"checkpoint_every": 20, "seed": 0}
    assert spec.faults[0].name == "process"
    assert spec.faults[0].target == "any"
    assert (spec.faults[0].at.phase, spec.faults[0].at.point) == ("forward", "entry")
    assert spec.objective.lost_steps == 40
    assert spec.objective.clock_from == "fired"
    assert spec.limits.ranks_down == 1


def test_lost_steps_follow_the_checkpoint_interval(tmp_path):
    text = edited(SHORTEST, ("run: trainer", "run: trainer, args: {checkpoint_every: 5}"))
    assert one(tmp_path, text).spec.objective.lost_steps == 10


def test_a_foreign_job_is_held_to_no_lost_steps_unless_asked(tmp_path):
    text = edited(SHORTEST, ("run: trainer", "command: [python, train.py]"))
    spec = one(tmp_path, text).spec
    assert spec.objective.lost_steps is None
    assert spec.job.args == {}


def test_without_faults_the_job_must_need_no_recovery(tmp_path):
    text = "schema: nvrx-chaos/scenario/1\nname: control\njob: {run: trainer}\n"
    assert one(tmp_path, text).spec.objective.recovered_by == "none"


def test_a_hang_without_lasts_is_left_for_the_job_to_end(tmp_path):
    text = edited(SHORTEST, ("process.kill, params: {signal: KILL}", "process.hang"))
    assert compile_plan(one(tmp_path, text), seed=0).faults[0].lasts_s is None


def test_yaml_truth_words_stay_words(tmp_path):
    assert one(tmp_path, SHORTEST + "title: on\ntags: [yes, NO, off]\n").spec.tags == ["yes", "NO", "off"]


def test_an_alias_stands_for_its_value(tmp_path):
    text = edited(SHORTEST, ("8s", "&t 8s")) + "limits: {timeout: 60s}\n"
    assert (
        one(
            tmp_path, edited(text, ("recovery_time: &t 8s", "recovery_time: &t 8s, detection_time: *t"))
        ).spec.objective.detection_time
        == "8s"
    )


def test_the_file_wins_over_defaults_key_by_key(tmp_path):
    (tmp_path / "defaults.yaml").write_text(
        "job: {steps: 200, args: {checkpoint_every: 10, lr: 0.1}}\nobjective: {detection_time: 3s}\ntags: [a, b]\n"
    )
    text = edited(SHORTEST, ("run: trainer", "run: trainer, args: {lr: 0.2}")) + "tags: [c]\n"
    spec = one(tmp_path, text).spec
    assert spec.job.steps == 200
    assert spec.job.args == {"checkpoint_every": 10, "lr": 0.2, "seed": 0}
    assert spec.objective.detection_time == "3s"
    assert spec.tags == ["c"]


def test_a_command_takes_the_place_of_the_run_in_defaults(tmp_path):
    (tmp_path / "defaults.yaml").write_text("job: {run: trainer, args: {checkpoint_every: 10}}\n")
    spec = one(tmp_path, edited(SHORTEST, ("run: trainer", "command: [a]"))).spec
    assert (spec.job.run, spec.job.command, spec.job.args) == (None, ["a"], {})


def test_set_wins_over_everything(tmp_path):
    (tmp_path / "defaults.yaml").write_text("job: {steps: 200}\n")
    text = edited(SHORTEST, ("run: trainer", "run: trainer, steps: 150"))
    spec = one(tmp_path, text, "job.steps=300", "target.rank=1", "at.phase=backward").spec
    assert spec.job.steps == 300
    assert spec.faults[0].target == Target(rank=1)
    assert spec.faults[0].at.phase == "backward"


def test_setting_ranks_takes_the_place_of_rank(tmp_path):
    text = edited(WHOLE, ("target: {rank: 1}", "target: {rank: 0}"))
    spec = one(tmp_path, text, "faults.kill.target.ranks=[1]").spec
    assert spec.faults[0].target == Target(ranks=[1])


def test_setting_an_environment_variable_called_run_leaves_the_others(tmp_path):
    text = edited(SHORTEST, ("run: trainer", "run: trainer, env: {command: x}"))
    assert one(tmp_path, text, "job.env.run=y").spec.job.env == {"command": "x", "run": "y"}


def test_vary_gives_one_run_of_each_combination_named_by_it(tmp_path):
    text = SHORTEST + "vary: {target.rank: [0, 1], at.phase: [forward, backward]}\n"
    scenarios = load_text(tmp_path, text)
    assert [scenario.name for scenario in scenarios] == [
        "kill-any-worker[rank=0,phase=forward]",
        "kill-any-worker[rank=0,phase=backward]",
        "kill-any-worker[rank=1,phase=forward]",
        "kill-any-worker[rank=1,phase=backward]",
    ]
    assert [(s.spec.faults[0].target.rank, s.spec.faults[0].at.phase) for s in scenarios] == [
        (0, "forward"),
        (0, "backward"),
        (1, "forward"),
        (1, "backward"),
    ]


def test_a_fault_can_be_varied_by_its_name_and_by_its_place(tmp_path):
    for key in ("faults.hang.at.step", "faults.1.at.step", '"faults[1].at.step"'):
        scenarios = load_text(tmp_path, WHOLE + f"vary: {{{key}: [76, 78]}}\n")
        assert [scenario.spec.faults[1].at.step for scenario in scenarios] == [76, 78]


def test_a_set_value_picks_one_of_the_varied_runs_and_keeps_its_name(tmp_path):
    text = SHORTEST + "vary: {target.rank: [0, 1], at.phase: [forward, backward]}\n"
    scenarios = load_text(tmp_path, text, "target.rank=1")
    assert [s.name for s in scenarios] == [
        "kill-any-worker[rank=1,phase=forward]",
        "kill-any-worker[rank=1,phase=backward]",
    ]


def test_a_set_value_inside_a_varied_one_goes_on_top_of_each(tmp_path):
    scenarios = load_text(
        tmp_path, SHORTEST + "vary: {at: [{step: 50}, {step: 60, phase: data}]}\n", "at.phase=backward"
    )
    assert [(s.spec.faults[0].at.step, s.spec.faults[0].at.phase) for s in scenarios] == [
        (50, "backward"),
        (60, "backward"),
    ]


def test_setting_what_holds_a_varied_value_ends_the_variation(tmp_path):
    (scenario,) = load_text(tmp_path, SHORTEST + "vary: {target.rank: [0, 1]}\n", "target=any")
    assert scenario.name == "kill-any-worker"


@pytest.mark.parametrize(
    ("vary", "sets"),
    [
        ("target.rank: [0, 1]", []),
        ("at.phase: [data, forward]", ["objective.recovery_time=7s"]),
        ("at: [{step: 50}, {after: 5s}, {event: restart_entered}]", []),
        ("job.env.A: ['1', 'yes it is', 'a: b', 'null']", ["title=two words"]),
        ("job.args.lr: [0.1, 1, true, '1e3', x]", []),
    ],
)
def test_the_repeat_command_gives_exactly_that_run(vary, sets, tmp_path):
    scenarios = load_text(tmp_path, SHORTEST + f"vary: {{{vary}}}\n", *sets)
    assert len({scenario.name for scenario in scenarios}) == len(scenarios) > 1
    for scenario in scenarios:
        plan = compile_plan(scenario, seed=7)
        words = shlex.split(plan.repeat)
        assert words[:2] == ["nvrx-chaos", "run"]
        path, options = words[2], words[3:]
        given = dict(zip(options[::2], options[1::2], strict=True))
        again = load_scenario(path, [v for k, v in zip(options[::2], options[1::2], strict=True) if k == "--set"])
        assert compile_plan(again, seed=int(given["--seed"])) == plan


def test_names_of_runs_can_be_names_of_folders(tmp_path):
    for scenario in load_text(tmp_path, SHORTEST + "vary: {job.env.A: [../../x, /etc, 'a b']}\n"):
        assert "/" not in scenario.name
        assert " " not in scenario.name


def test_a_file_that_varies_is_not_one_scenario(tmp_path):
    (tmp_path / "v.yaml").write_text(SHORTEST + "vary: {target.rank: [0, 1]}\n")
    with pytest.raises(ScenarioInvalid, match=r"gives 2 runs; pick one, such as --set target\.rank=0"):
        load_scenario(tmp_path / "v.yaml")
    assert load_scenario(tmp_path / "v.yaml", ["target.rank=1"]).name == "kill-any-worker[rank=1]"


def test_one_bad_file_starts_nothing_and_all_bad_ones_are_named(tmp_path):
    (tmp_path / "good.yaml").write_text(SHORTEST)
    (tmp_path / "bad.yaml").write_text(edited(SHORTEST, ("47", "470")))
    (tmp_path / "worse.yaml").write_text("")
    with pytest.raises(ScenarioInvalid) as caught:
        load_paths([tmp_path / name for name in ("good.yaml", "bad.yaml", "worse.yaml")])
    assert "bad.yaml:4" in str(caught.value)
    assert "worse.yaml:1" in str(caught.value)


def test_two_files_must_not_give_runs_of_one_name(tmp_path):
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(SHORTEST)
    with pytest.raises(ScenarioInvalid, match='"kill-any-worker" is also the name of a run of'):
        load_paths([tmp_path / "a.yaml", tmp_path / "b.yaml"])


def test_the_source_is_the_path_as_given(tmp_path, monkeypatch):
    (tmp_path / "x.yaml").write_text(SHORTEST)
    monkeypatch.chdir(tmp_path)
    (scenario,) = load_path("x.yaml")
    assert scenario.source == "x.yaml"


@pytest.mark.parametrize(("text", "time_s"), [("500ms", 0.5), ("8s", 8.0), ("2m", 120.0), ("1.5s", 1.5), ("0s", 0.0)])
def test_durations_are_read(text, time_s):
    assert seconds(text) == time_s


@pytest.mark.parametrize("text", ["", "8", "s", "1h", "-1s", "1 s", "1e3s", "1s1s", ".5s", "٣s", "1s\n"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError):
        seconds(text)
