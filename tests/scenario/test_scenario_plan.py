"""The plan: every rank and time fixed, from the seed alone; and the resolved form that leads to it."""

from __future__ import annotations

from datetime import date

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenario_build import FORESEEN, SHORTEST, WHOLE, edited, load_text

from chaos.faults.catalogue import BY_NAME
from chaos.model.plan import At, KnownPlan, ObjectivePlan, Restarts
from chaos.scenario.plan import compile_plan
from chaos.scenario.show import resolved_yaml

ANY_OF_EIGHT = edited(SHORTEST, ("run: trainer", "run: trainer, ranks_per_node: 8"))


def plan_of(tmp_path, text, *sets, seed=0):
    (scenario,) = load_text(tmp_path, text, *sets)
    return compile_plan(scenario, seed=seed)


def test_times_are_seconds_and_points_are_split(tmp_path):
    plan = plan_of(tmp_path, WHOLE)
    assert plan.faults[0].at == At(step=57, phase="backward", point="in_collective")
    assert plan.faults[1].at == At(step=77, phase="backward", point="entry", point_after_s=0.005)
    assert plan.faults[1].lasts_s == 5.0
    assert plan.limits.timeout_s == 120.0


def test_the_objective_is_carried_whole(tmp_path):
    assert plan_of(tmp_path, WHOLE).objective == ObjectivePlan(
        recovered_by=("in_process", "in_job"),
        clock_from="fired",
        detection_time_s=2.0,
        recovery_time_s=8.0,
        full_recovery_time_s=20.0,
        lost_steps=20,
        restarts=Restarts(in_process=1, in_job=2),
        parts_s={"rendezvous": 3.0},
        world_size="same",
        state_close=0.001,
        step_time_ratio=2.0,
        added=("parts_in_time",),
        dropped=("no_residue",),
    )


@pytest.mark.parametrize(
    ("size", "in_bytes"), [("16MiB", 16 << 20), ("512KiB", 512 << 10), ("1GiB", 1 << 30), ("4096B", 4096)]
)
def test_memory_that_may_be_kept_is_counted_in_bytes(tmp_path, size, in_bytes):
    three = ", ".join(
        f"{{name: f{step}, fault: process.exception, target: {{rank: 1}}, at: {{step: {step}}}}}"
        for step in (40, 60, 80)
    )
    text = edited(
        SHORTEST, ("[in_job]", "[in_process]"), (SHORTEST.splitlines()[3], f"faults: [{three}]"),
        ("recovered_by: in_job", f"recovered_by: in_process, memory_growth: {size}"),
    )  # fmt: skip
    assert plan_of(tmp_path, text).objective.memory_growth_bytes == in_bytes
    assert plan_of(tmp_path, SHORTEST).objective.memory_growth_bytes is None


def test_nvrx_is_held_to_its_blame_only_where_that_is_asked(tmp_path):
    asked = edited(SHORTEST, ("recovery_time: 8s", "recovery_time: 8s, blamed: right"))
    assert plan_of(tmp_path, asked).objective.blamed is True
    assert plan_of(tmp_path, SHORTEST).objective.blamed is False


def test_what_a_fault_is_comes_from_the_catalogue(tmp_path):
    for fault in plan_of(tmp_path, WHOLE).faults:
        entry = BY_NAME[fault.fault]
        assert (fault.ends, fault.layer, fault.fidelity) == (entry.ends, entry.layer, entry.fidelity)
        assert (fault.certifies, fault.does_not_certify) == (entry.certifies, entry.does_not_certify)


def test_parameters_left_out_are_in_the_plan(tmp_path):
    text = edited(SHORTEST, ("process.kill, params: {signal: KILL}", "process.exception"))
    assert plan_of(tmp_path, text).faults[0].params == {"type": "RuntimeError", "message": ""}


def test_after_and_event_need_no_step(tmp_path):
    assert plan_of(tmp_path, SHORTEST, "at={after: 5s}").faults[0].at == At(after_s=5.0)
    assert plan_of(tmp_path, SHORTEST, "at={event: restart_entered}").faults[0].at == At(event="restart_entered")


def test_listed_ranks_are_hit_together(tmp_path):
    text = edited(SHORTEST, ("run: trainer", "run: trainer, ranks_per_node: 4")) + "limits: {ranks_down: 2}\n"
    assert plan_of(tmp_path, text, "target.ranks=[3, 1]").faults[0].ranks == (1, 3)


def test_all_means_every_rank(tmp_path):
    plan = plan_of(tmp_path, SHORTEST, "target=all", "limits.ranks_down=2")
    assert plan.faults[0].ranks == (0, 1)


def test_the_same_seed_gives_the_same_plan_and_seeds_reach_every_rank(tmp_path):
    chosen = [plan_of(tmp_path, ANY_OF_EIGHT, seed=seed).faults[0].ranks for seed in range(60)]
    assert chosen == [plan_of(tmp_path, ANY_OF_EIGHT, seed=seed).faults[0].ranks for seed in range(60)]
    assert {rank for (rank,) in chosen} == set(range(8))


def test_naming_the_rank_of_one_fault_leaves_the_choice_for_another_alone(tmp_path):
    text = edited(
        WHOLE,
        ("ranks_per_node: 2", "ranks_per_node: 8"),
        ("target: {rank: 1}", "target: any"),
        ("target: {rank: 0}", "target: any"),
    )
    for seed in range(20):
        free = plan_of(tmp_path, text, seed=seed)
        named = plan_of(tmp_path, text, "faults.kill.target.rank=3", seed=seed)
        assert named.faults[0].ranks == (3,)
        assert named.faults[1].ranks == free.faults[1].ranks


def test_the_seed_never_reaches_the_trainer(tmp_path):
    assert plan_of(tmp_path, SHORTEST, seed=1).job == plan_of(tmp_path, SHORTEST, seed=2).job


def test_foreseen_failures_are_carried_with_the_names_that_ranks_give_to_versions(tmp_path):
    plan = plan_of(tmp_path, FORESEEN)
    assert plan.expect_failed == ("lost_work",)
    assert plan.known == KnownPlan(
        checks=("state_exact", "recovered_in_time"),
        since={"nvidia-resiliency-ext": ">=0.4.1,<0.7", "torch": "!=2.9"},
        ref="https://example.org/issues?number=7#last",
        until=date(2027, 3, 1),
    )


def test_packages_are_those_whose_versions_ranks_tell():
    from chaos.agent.core import _versions
    from chaos.scenario.plan import PACKAGE
    from chaos.scenario.schema import Since

    assert set(PACKAGE) == set(Since.__struct_fields__) and set(PACKAGE.values()) == set(_versions())


def test_a_foreseen_failure_can_be_varied_and_set(tmp_path):
    varied = load_text(tmp_path, SHORTEST + "vary: {expect_failed: [[], [lost_work]]}\n")
    assert [scenario.spec.expect_failed for scenario in varied] == [[], ["lost_work"]]
    assert plan_of(tmp_path, FORESEEN, "known.until=2028-01-31").known.until == date(2028, 1, 31)


def test_the_plan_survives_being_written(tmp_path):
    plan = plan_of(tmp_path, FORESEEN)
    assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(plan)), type(plan)) == plan


@pytest.mark.parametrize("text", [SHORTEST, FORESEEN, WHOLE + "vary: {faults.kill.target.rank: [0, 1]}\n"])
def test_the_resolved_form_loads_back_to_the_same_plan(text, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    for scenario in load_text(tmp_path, text):
        plan = compile_plan(scenario, seed=5)
        again = plan_of(tmp_path / "elsewhere", resolved_yaml(scenario.spec), seed=5)
        assert msgspec.structs.replace(again, source=plan.source, repeat=plan.repeat) == plan


WORDS = st.text(st.characters(blacklist_categories=("Cs", "Cc"), max_codepoint=0xFFFF), max_size=30)


@settings(max_examples=60, deadline=None)
@given(title=WORDS, value=WORDS, number=st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False))
def test_any_text_and_number_survives_the_resolved_form(tmp_path_factory, title, value, number):
    folder = tmp_path_factory.mktemp("round")
    (scenario,) = load_text(folder, SHORTEST)
    job = msgspec.structs.replace(
        scenario.spec.job, env={"A": value}, args={**scenario.spec.job.args, "x": number, "t": value}
    )
    spec = msgspec.structs.replace(scenario.spec, title=title, job=job)
    (again,) = load_text(folder, resolved_yaml(spec))
    assert again.spec == spec


def test_the_resolved_form_does_not_depend_on_defaults_beside_it(tmp_path):
    (tmp_path / "defaults.yaml").write_text("objective: {detection_time: 3s}\n")
    plan = plan_of(tmp_path, SHORTEST)
    assert plan.objective.detection_time_s == 3.0
    shown = resolved_yaml(load_text(tmp_path, SHORTEST)[0].spec)
    (tmp_path / "defaults.yaml").unlink()
    assert plan_of(tmp_path, shown).objective == plan.objective
