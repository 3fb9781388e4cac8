"""Whatever text is given: a scenario, or an error that names the file. Nothing else."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scenario_build import FORESEEN, SHORTEST, WHOLE, load_text

from chaos.errors import ScenarioInvalid
from chaos.scenario.load import Scenario
from chaos.scenario.plan import compile_plan


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def check(folder, text):
    try:
        scenarios = load_text(folder, text)
    except ScenarioInvalid as error:
        assert all("x.yaml" in line or line.startswith("... and ") for line in str(error).splitlines()), str(error)
        return
    assert scenarios and all(isinstance(scenario, Scenario) for scenario in scenarios)
    for scenario in scenarios:
        compile_plan(scenario, seed=0)


UNHURRIED = settings(max_examples=120, deadline=None)  # a busy machine is no failure
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@UNHURRIED
@given(text=st.text(max_size=200))
@example(text="a: !!int x")
@example(text="? ")
@example(text="&a")
@example(text="- !!timestamp 99")
@example(text='"\\UFFFFFFFF"')
@example(text="a: !!float _")
@example(text="schema: nvrx-chaos/scenario/1\n<<: 1")
def test_any_text_gives_an_error_that_names_the_file(folder, text):
    check(folder, text.encode("utf-8", "surrogatepass"))


@UNHURRIED
@given(text=st.text("[]{}:,-&*!|>'\"%@`#?\n abc01~", max_size=60))
def test_any_yaml_like_text_gives_an_error_that_names_the_file(folder, text):
    check(folder, text)


@given(seed=st.integers(0, 2**32), count=st.integers(1, 6))
@UNHURRIED
def test_a_scenario_with_characters_changed_is_a_scenario_or_an_error(folder, seed, count):
    rng = random.Random(seed)
    text = list(rng.choice([SHORTEST, FORESEEN, WHOLE + "vary: {faults.kill.target.rank: [0, 1]}\n"]))
    for _ in range(count):
        place = rng.randrange(len(text))
        text[place] = rng.choice(
            ["", "", "\n", " ", ":", "{", "}", "[", "]", ",", "-", "0", "9", "x", "~", "&a ", "*a", "'"]
        )
    check(folder, "".join(text))


PLACES = [
    "name", "title", "why", "tags", "job", "job.run", "job.steps", "job.recovery", "job.env", "job.args", "job.nodes",
    "steady_state.steps", "faults.kill.fault", "faults.kill.params", "faults.kill.target", "faults.kill.at",
    "faults.kill.at.step", "faults.kill.at.point", "faults.hang.lasts", "objective", "objective.recovered_by",
    "objective.recovery_time", "objective.state", "objective.checks", "objective.parts", "limits", "limits.timeout",
    "expect_failed", "known", "known.checks", "known.since", "known.since.nvrx", "known.ref", "known.until",
]  # fmt: skip


@given(place=st.sampled_from(PLACES), value=VALUES)
@UNHURRIED
def test_any_value_in_any_place_is_taken_or_answered(folder, place, value):
    check(folder, FORESEEN + "vary: {" + json.dumps(place) + ": [" + json.dumps(value, ensure_ascii=True) + "]}\n")
