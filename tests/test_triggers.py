"""Triggers: due exactly where asked, past only when that is sure."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.model.events import PHASES, POINTS
from chaos.model.orders import Trigger
from chaos.triggers import is_due, is_past

AT_BACKWARD = Trigger(step=47, phase="backward", point="in_collective")


def test_a_trigger_is_due_at_its_step_phase_and_point():
    assert is_due(AT_BACKWARD, step=47, phase="backward", point="in_collective")


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"step": 46, "phase": "backward", "point": "in_collective"},
        {"step": 48, "phase": "backward", "point": "in_collective"},
        {"step": 47, "phase": "forward", "point": "in_collective"},
        {"step": 47, "phase": "backward", "point": "entry"},
    ],
)
def test_a_trigger_is_not_due_anywhere_else(elsewhere):
    assert not is_due(AT_BACKWARD, **elsewhere)


def test_a_trigger_without_a_step_is_due_at_once_and_never_past():
    trigger = Trigger()
    assert is_due(trigger, step=3, phase="restart", point="exit")
    assert not is_past(trigger, step=10**9, phase="shutdown")


def test_a_trigger_without_a_phase_is_due_in_any_phase_of_its_step():
    assert is_due(Trigger(step=5), step=5, phase="optimizer", point="entry")
    assert not is_due(Trigger(step=5), step=6, phase="optimizer", point="entry")


def test_a_later_step_is_past_and_an_earlier_one_is_not():
    assert is_past(AT_BACKWARD, step=52, phase="data")
    assert not is_past(AT_BACKWARD, step=46, phase="optimizer")


@pytest.mark.parametrize(
    ("phase", "past"), [("data", False), ("forward", False), ("backward", False), ("optimizer", True)]
)
def test_within_a_step_only_a_later_phase_is_past(phase, past):
    assert is_past(AT_BACKWARD, step=47, phase=phase) is past


@pytest.mark.parametrize("phase", ["checkpoint_save", "checkpoint_commit", "restart"])
def test_a_phase_without_a_place_in_the_step_is_past_with_its_step_only(phase):
    assert not is_past(AT_BACKWARD, step=47, phase=phase)
    assert not is_past(Trigger(step=47, phase=phase), step=47, phase="optimizer")
    assert is_past(Trigger(step=47, phase=phase), step=48, phase="data")


@given(
    step=st.integers(0, 50),
    phase=st.sampled_from(PHASES),
    point=st.sampled_from(POINTS),
    at=st.integers(0, 50),
    in_phase=st.sampled_from(PHASES),
)
def test_what_is_due_is_never_past(step, phase, point, at, in_phase):
    trigger = Trigger(step=step, phase=phase, point=point)
    if is_due(trigger, step=at, phase=in_phase, point=point):
        assert not is_past(trigger, step=at, phase=in_phase)


def test_ranks_can_import_it_with_the_standard_library_alone():
    code = (
        "import sys, chaos.triggers; print([m for m in ('msgspec', 'torch', 'ruamel', 'psutil') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
