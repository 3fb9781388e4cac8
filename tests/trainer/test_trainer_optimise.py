"""The learning rate by step, and its numbers in a checkpoint."""

from __future__ import annotations

import pytest

from trainer.optimise import Schedule


def schedule(steps: int = 100) -> Schedule:
    return Schedule(peak=1.0, floor=0.1, warmup_steps=10, steps=steps)


def test_the_rate_rises_to_its_peak_and_falls_to_the_floor():
    rates = [schedule().rate(step) for step in range(101)]
    assert rates[:10] == pytest.approx([0.1 * (step + 1) for step in range(10)])
    assert rates[10] == 1.0
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[100] == pytest.approx(0.1)


def test_past_its_end_the_schedule_stays_at_the_floor():
    assert schedule().rate(500) == pytest.approx(0.1)


def test_a_restored_schedule_goes_on_as_it_was_saved():
    resumed = schedule(steps=40)
    resumed.load_state_dict(schedule(steps=100).state_dict())
    assert resumed.rate(55) == schedule(steps=100).rate(55)


def test_no_warmup_starts_at_the_peak():
    assert Schedule(peak=1.0, floor=0.1, warmup_steps=0, steps=10).rate(0) == 1.0
