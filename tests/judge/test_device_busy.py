"""A step that is reported before the device has finished it does not show that the job is steady again."""

from __future__ import annotations

from judge_build import changed, check_of, killed


def with_busy_steps(*steps: int, busy: object = True):
    """`killed()`, whose second group reports these steps so. It does 13 steps beyond the highest one, 10 are needed."""
    return changed(killed(), "step_done", lambda e: e.group == "g1" and e.data["step"] in steps, device_busy=busy)


def test_steps_reported_while_the_device_was_busy_do_not_count():
    check = check_of("steady_after", with_busy_steps(*range(40, 60)))
    assert check.outcome == "fail"
    assert "0 steps beyond" in check.observed and "the device was still busy" in check.observed


def test_the_finished_ones_beside_them_count():
    assert check_of("steady_after", with_busy_steps(50, 51, 52)).outcome == "pass"
    assert check_of("steady_after", with_busy_steps(50, 51, 52, 53)).outcome == "fail"


def test_a_device_that_had_finished_is_not_busy():
    assert check_of("steady_after", with_busy_steps(*range(40, 60), busy=False)).outcome == "pass"
